# The command line and the service, with the driver for PostgreSQL: `docker run deltasql --help`.
FROM python:3.13-slim
COPY pyproject.toml README.md LICENSE CHANGELOG.md /build/
COPY src /build/src
RUN pip install --no-cache-dir '/build[postgres,serve]' && rm -r /build \
    && useradd --create-home deltasql
USER deltasql
WORKDIR /home/deltasql
ENTRYPOINT ["deltasql"]
