# syntax=docker/dockerfile:1

# Three images, of which the flusher's is made unless --target names another: usage-flusher, tallyweir-gateway, mock-upstream.
# All stages are of the same Debian release, or the binaries would ask for a newer C library than there is.
ARG RUST_VERSION=1.95
ARG DEBIAN_RELEASE=bookworm

FROM rust:${RUST_VERSION}-slim-${DEBIAN_RELEASE} AS build
WORKDIR /src
COPY . .
# Registry and target folder live in the builder's cache: a change of one crate compiles that crate and those above it.
# Traces are exported only when a collector is named (OTEL_EXPORTER_OTLP_ENDPOINT); without, the feature costs a dozen small crates.
# Queries are checked against the committed .sqlx (.cargo/config.toml), so no database is needed.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked --features usage-flusher/otel \
        --package usage-flusher --bin usage-flusher \
        --package gateway --bin tallyweir-gateway \
        --package mock-upstream --bin mock-upstream \
    && install -D --mode=0755 --target-directory=/out \
        target/release/usage-flusher target/release/tallyweir-gateway target/release/mock-upstream

# Debian and not distroless: HEALTHCHECK needs something that can ask over HTTP, and here bash can.
FROM debian:${DEBIAN_RELEASE}-slim AS base
# The authorities that sign the certificates of rediss:// and sslmode=verify-full servers.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
# A number, so that Kubernetes can see that it is not root. It owns nothing but a gateway's spool.
USER 65532:65532
WORKDIR /

# For demonstrations and tests.
FROM base AS mock-upstream
COPY --from=build /out/mock-upstream /usr/local/bin/mock-upstream
EXPOSE 9101
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9101 && printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^alive' <&3"]
ENTRYPOINT ["/usr/local/bin/mock-upstream"]
CMD ["--listen", "0.0.0.0:9101"]

FROM base AS tallyweir-gateway
# Where the spool lies. A volume that is new takes its owner from here.
USER 0:0
RUN install --directory --mode=0700 --owner=65532 --group=65532 /var/lib/tallyweir
USER 65532:65532
COPY --from=build /out/tallyweir-gateway /usr/local/bin/tallyweir-gateway
ENV TALLYWEIR_GATEWAY_LISTEN=0.0.0.0:8080 \
    TALLYWEIR_CONFIG=/etc/tallyweir/gateway.toml \
    TALLYWEIR_SPOOL=/var/lib/tallyweir/bills.spool \
    TALLYWEIR_LOG_FORMAT=json
EXPOSE 8080
VOLUME ["/var/lib/tallyweir"]
# Alive, not ready: restarting a gateway mends neither Redis nor PostgreSQL.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^alive' <&3"]
ENTRYPOINT ["/usr/local/bin/tallyweir-gateway"]
CMD ["run"]

FROM base AS usage-flusher
COPY --from=build /out/usage-flusher /usr/local/bin/usage-flusher
# All addresses of the container, since probes and scrapes come from outside of it. There is no authentication:
# publish the port to where you trust.
ENV TALLYWEIR_LISTEN=0.0.0.0:9464 \
    TALLYWEIR_LOG_FORMAT=json
EXPOSE 9464
# Alive, not ready: restarting a flusher mends neither Redis nor PostgreSQL.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^alive' <&3"]
ENTRYPOINT ["/usr/local/bin/usage-flusher"]
CMD ["run"]

