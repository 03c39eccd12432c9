"""Actions of the console: commands run as detached child processes, and the confirmations that they require."""
