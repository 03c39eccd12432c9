# The image of the executors' pods: the image of the driver (Dockerfile), so that Spark, Python and psycopg2 have the
# same versions, with another entry point.
#   docker build -t slotkeeper . && docker build -t slotkeeper-executor -f docs/kubernetes/executor.Dockerfile .
FROM slotkeeper:latest
COPY docker/executor /usr/local/bin/slotkeeper-executor
WORKDIR /tmp
ENTRYPOINT ["slotkeeper-executor"]
