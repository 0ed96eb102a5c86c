# The service in one image: `docker run controlplane:0.1.0 run`. Stages, so that pip's caches and what builds stay behind. (`database` is for compose.)
# The dependencies come from the locks, hash by hash, before the code and in a layer of their own, so that a change of code is one small layer.
FROM python:3.14-slim AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/venv \
 && pip --python /opt/venv/bin/python install --require-hashes --only-binary :all: -r requirements.lock

FROM dependencies AS build
COPY requirements-build.lock ./
RUN pip install --require-hashes --only-binary :all: -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY migrations migrations
COPY examples examples
# What `controlplane doctor` asks for: the rights that are installed.
COPY deploy/candidates/source deploy/candidates/source
COPY deploy/candidates/follow deploy/candidates/follow
COPY deploy/candidates/target deploy/candidates/target
COPY deploy/candidates/virtual-nodes deploy/candidates/virtual-nodes
COPY deploy/coscheduling deploy/coscheduling
COPY deploy/multikueue-webhook deploy/multikueue-webhook
COPY deploy/pipelineruns deploy/pipelineruns
COPY deploy/podgroups deploy/podgroups
COPY deploy/rbac deploy/rbac
COPY deploy/scheduler deploy/scheduler
COPY deploy/visibility deploy/visibility
COPY controlplane controlplane
# What is copied keeps its mode, and a clone under umask 077 is closed to the user as whom all this runs.
RUN chmod -R a+rX LICENSE examples deploy \
 && pip wheel --no-deps --no-build-isolation --wheel-dir /wheel .

# PostgreSQL with the installation's roles, which an empty data directory gets. Copied and not mounted: the server runs as a user to whom the
# files of a clone may be closed.
FROM postgres:18 AS database
COPY deploy/postgres/roles.sql /roles.sql
COPY deploy/postgres/rights.sql /rights.sql
COPY deploy/compose/init.sh /docker-entrypoint-initdb.d/10-roles.sh
RUN chmod 0644 /roles.sql && chmod 0644 /rights.sql && chmod 0755 /docker-entrypoint-initdb.d/10-roles.sh

FROM python:3.14-slim
LABEL org.opencontainers.image.title="controlplane" \
      org.opencontainers.image.description="Event-sourced control plane for batch work on many Kubernetes clusters" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 65532 controlplane \
 && useradd --uid 65532 --gid 65532 --create-home --home-dir /var/lib/controlplane --shell /usr/sbin/nologin controlplane \
 && install --directory --owner 65532 --group 65532 --mode 0700 /var/lib/controlplane/clusters
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=build /src/LICENSE /usr/share/doc/controlplane/LICENSE
WORKDIR /var/lib/controlplane
COPY --from=build /src/examples examples
# The wheel is mounted and not copied, or it would stay in a layer.
RUN --mount=type=bind,from=build,source=/wheel,target=/wheel \
    pip --python /opt/venv/bin/python install --no-cache-dir --no-deps --no-index /wheel/*.whl
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('CONTROLPLANE_HTTP_PORT', '8080') + '/healthz', timeout=4)"]
ENTRYPOINT ["controlplane"]
CMD ["run"]
