# The command line and the service, with the driver for PostgreSQL: `docker run deltasql --help`.
# Packages are fetched as requirements.lock has them, by hash; the image then installs what it needs of
# them without a network. The base is an index of all platforms, by its digest; for a newer one build
# with `--build-arg BASE=python:3.13-slim@sha256:…`, as `docker pull` prints it.
ARG BASE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
FROM ${BASE} AS packages
COPY requirements.lock /build/
RUN pip download --no-cache-dir --no-deps --require-hashes -r /build/requirements.lock -d /packages

FROM ${BASE}
COPY pyproject.toml README.md LICENSE CHANGELOG.md /build/
COPY src /build/src
RUN --mount=type=bind,from=packages,source=/packages,target=/packages \
    pip install --no-cache-dir --no-index --find-links /packages '/build[postgres,serve]' \
    && rm -r /build && useradd --create-home deltasql
USER deltasql
WORKDIR /home/deltasql
ENTRYPOINT ["deltasql"]
