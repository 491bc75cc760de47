package api

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/sluiceio/sluice/internal/probe"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// need says who may answer a method.
type need int

const (
	anyone        need = iota // every coordinator, for itself
	theLeader                 // the leader; a follower forwards
	leaderOrStale             // the leader, unless the client accepts what this coordinator knows
)

// repeat says what a follower may do when the leader is lost in the middle of a forwarded call.
type repeat int

const (
	once    repeat = iota // the client decides
	again                 // asking twice is as good as asking once
	streams               // no second try: part of the stream is gone
)

// routing of one method.
type routing struct {
	need   need
	repeat repeat
}

// routes is the table: every method of every service of a coordinator. A method that is missing here is refused.
func routes() map[string]routing {
	all := ownRoutes()
	for _, name := range probe.Calls() {
		all[name] = routing{anyone, once}
	}
	for _, name := range probe.Streams() {
		all[name] = routing{anyone, streams}
	}
	return all
}

func ownRoutes() map[string]routing {
	return map[string]routing{
		apipb.Jobs_Submit_FullMethodName: {theLeader, again}, // the request id makes it so
		apipb.Jobs_Plan_FullMethodName:   {theLeader, again},
		apipb.Jobs_List_FullMethodName:   {leaderOrStale, again},
		apipb.Jobs_Status_FullMethodName: {leaderOrStale, again},
		apipb.Jobs_Wait_FullMethodName:   {theLeader, again},
		apipb.Jobs_Cancel_FullMethodName: {theLeader, again},
		apipb.Jobs_Events_FullMethodName: {theLeader, streams},
		apipb.Jobs_Logs_FullMethodName:   {theLeader, streams},

		apipb.Jobs_Watermarks_FullMethodName: {theLeader, again},

		apipb.Jobs_Checkpoints_FullMethodName:     {leaderOrStale, again},
		apipb.Jobs_Savepoint_FullMethodName:       {theLeader, again}, // the request id makes it so
		apipb.Jobs_DeleteSavepoint_FullMethodName: {theLeader, again},
		apipb.Jobs_Rescale_FullMethodName:         {theLeader, again}, // the request id makes it so
		apipb.Jobs_ReadObject_FullMethodName:      {theLeader, streams},

		apipb.Artifacts_Upload_FullMethodName: {theLeader, streams},
		apipb.Artifacts_Stat_FullMethodName:   {theLeader, again},
		apipb.Artifacts_Fetch_FullMethodName:  {anyone, streams},

		apipb.Cluster_Info_FullMethodName:            {anyone, once},
		apipb.Cluster_Workers_FullMethodName:         {leaderOrStale, again},
		apipb.Cluster_DrainWorker_FullMethodName:     {theLeader, again},
		apipb.Cluster_Peers_FullMethodName:           {leaderOrStale, again},
		apipb.Cluster_AddPeer_FullMethodName:         {theLeader, again},
		apipb.Cluster_RemovePeer_FullMethodName:      {theLeader, once},
		apipb.Cluster_TransferLeader_FullMethodName:  {theLeader, once},
		apipb.Cluster_SaveSnapshot_FullMethodName:    {theLeader, streams},
		apipb.Cluster_RestoreSnapshot_FullMethodName: {theLeader, streams},

		apipb.Node_Hello_FullMethodName:         {anyone, once},
		apipb.Node_Join_FullMethodName:          {theLeader, again},
		apipb.Node_StoreArtifact_FullMethodName: {anyone, streams},
		apipb.Node_Inventory_FullMethodName:     {anyone, once},
		apipb.Node_Chain_FullMethodName:         {anyone, once},

		controlpb.Control_Attach_FullMethodName: {anyone, streams}, // refuses by itself, with the leader's address
	}
}

// stale reports whether the client accepts what this coordinator knows.
func stale(request any) bool {
	asked, ok := request.(interface{ GetStale() bool })
	return ok && asked.GetStale()
}

// method is a routing with the types needed to forward it.
type method struct {
	routing
	in, out                    protoreflect.MessageType
	clientStream, serverStream bool
}

// describe finds the message types of every route in the registry of generated code.
func describe() (map[string]method, error) {
	all := make(map[string]method)
	for name, r := range routes() {
		m := method{routing: r}
		full := protoreflect.FullName(name[1:])
		service, rpc, ok := cutMethod(string(full))
		if !ok {
			return nil, fmt.Errorf("method %q: no service", name)
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			return nil, fmt.Errorf("service of %q: %w", name, err)
		}
		described, ok := found.(protoreflect.ServiceDescriptor)
		if !ok {
			return nil, fmt.Errorf("service of %q: not a service", name)
		}
		d := described.Methods().ByName(protoreflect.Name(rpc))
		if d == nil {
			return nil, fmt.Errorf("method %q: not in its service", name)
		}
		if m.in, err = protoregistry.GlobalTypes.FindMessageByName(d.Input().FullName()); err != nil {
			return nil, fmt.Errorf("request of %q: %w", name, err)
		}
		if m.out, err = protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName()); err != nil {
			return nil, fmt.Errorf("response of %q: %w", name, err)
		}
		m.clientStream, m.serverStream = d.IsStreamingClient(), d.IsStreamingServer()
		all[name] = m
	}
	return all, nil
}

func cutMethod(full string) (service, rpc string, ok bool) {
	for i := len(full) - 1; i >= 0; i-- {
		if full[i] == '/' {
			return full[:i], full[i+1:], true
		}
	}
	return "", "", false
}
