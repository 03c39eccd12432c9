"""What the console sets going: commands of the command line as detached children, and what must be typed before."""
