# syntax=docker/dockerfile:1

# Both stages are of the same Debian release, or the binary would ask for a newer C library than there is.
ARG RUST_VERSION=1.95
ARG DEBIAN_RELEASE=bookworm

FROM rust:${RUST_VERSION}-slim-${DEBIAN_RELEASE} AS build
WORKDIR /src
COPY . .
# Registry and target folder live in the builder's cache: a change of one crate compiles that crate and those above it.
# Queries are checked against the committed .sqlx (.cargo/config.toml), so no database is needed.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked --package usage-flusher --bin usage-flusher \
    && install -D --mode=0755 target/release/usage-flusher /out/usage-flusher

# Debian and not distroless: HEALTHCHECK needs something that can ask over HTTP, and here bash can.
FROM debian:${DEBIAN_RELEASE}-slim
# The authorities that sign the certificates of rediss:// and sslmode=verify-full servers.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/usage-flusher /usr/local/bin/usage-flusher
# A number, so that Kubernetes can see that it is not root. It owns nothing and writes nothing.
USER 65532:65532
WORKDIR /
# All addresses of the container, since probes and scrapes come from outside of it. There is no authentication:
# publish the port to where you trust.
ENV TOLLGATE_LISTEN=0.0.0.0:9464 \
    TOLLGATE_LOG_FORMAT=json
EXPOSE 9464
# Alive, not ready: restarting a flusher mends neither Redis nor PostgreSQL.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^alive' <&3"]
ENTRYPOINT ["/usr/local/bin/usage-flusher"]
CMD ["run"]
