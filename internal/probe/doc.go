// Package probe answers the questions that tools ask of any gRPC server without knowing what it is for: is it healthy
// (grpc.health.v1, for probes of Kubernetes, load balancers and grpc-health-probe) and what does it offer (reflection, for
// grpcurl and the like).
//
// What lives here: the two services and how a node's readiness becomes their answer. What never does: how a node finds
// out whether it is ready. Servers of job binaries do not link it.
//
// Health and the HTTP port say the same: the empty service name is /healthz, SERVING as long as the process answers; the
// name of one of the node's own services is /readyz, SERVING while the node can do what it is for.
//
// Concurrency: everything may be called from any goroutine.
package probe
