package protocol

import "time"

// View is a node's view of the cluster, for people.
type View struct {
	Held     bool   // this agent has a session
	Draining bool   // it is releasing its pipelines, or has released them
	Last     Notice // about this agent; zero if there is none
	Members  []MemberView
	Claims   []ClaimView
}

// MemberView is a session.
type MemberView struct {
	Session
	Gone   bool          // it has ended
	Silent time.Duration // time since its last change; 0 for this agent's own session
}

// ClaimView is a pipeline that this agent would run, or that a member has the claim of.
type ClaimView struct {
	Claim                 // zero except for Pipeline, its id, if there is no claim
	Last    Notice        // about the pipeline; zero if there is none
	Pending time.Duration // time that a write of this agent has been without a known outcome
}

// View returns the node's view of the cluster.
func (n *Node) View(now time.Duration) View {
	v := View{Held: n.session.held, Draining: n.session.leaving, Last: n.noticed[""]}
	if n.session.held {
		v.Members = append(v.Members, MemberView{Session: n.session.value})
	}
	for _, agent := range sorted(n.peers) {
		if p := n.peers[agent]; p.Stamp.Write != 0 { // peers without a stamp are known from claims only
			v.Members = append(v.Members, MemberView{Session: p.Session, Gone: p.gone, Silent: now - p.changed})
		}
	}
	for _, id := range shown(n) {
		c := ClaimView{Claim: n.entries[id].Claim, Last: n.noticed[id], Pending: n.claims[id].unsettled(now)}
		if c.Pipeline = id; c.Owner != "" && c.Epoch == 0 {
			c.Epoch = n.entries[id].revision // the claiming write is the latest
		}
		v.Claims = append(v.Claims, c)
	}
	return v
}

// shown returns the ids of the claims that people should see: claims that have or should have an owner, and claims of
// the cluster's pipelines that are not deleted.
func shown(n *Node) []string {
	all, live := map[string]bool{}, n.live(n.session.value)
	for id, i := range n.wanted {
		if i.due(n, live) || !i.Each {
			all[id] = true
		}
	}
	for id, s := range n.entries {
		if _, number := InstanceOf(id); !s.Deleted && (number == 1 || s.Owner != "") {
			all[id] = true
		}
	}
	return sorted(all)
}

// Lag returns the longest time that the write of a claim has been without a known outcome.
func (n *Node) Lag(now time.Duration) (most time.Duration) {
	for id := range n.claims {
		most = max(most, n.claims[id].unsettled(now))
	}
	return most
}

// HeldUntil returns when this agent's session ends by its clock unless it is renewed; 0 if there is no session.
func (n *Node) HeldUntil() time.Duration {
	if !n.session.held {
		return 0
	}
	return n.session.renewed + n.Timing.SelfStop
}

// Live returns the agents whose sessions are not known to have ended, this agent first. It returns none while this
// agent has no session.
func (n *Node) Live() (agents []string) {
	if !n.session.held {
		return nil
	}
	for _, s := range n.live(n.session.value) {
		agents = append(agents, s.Agent)
	}
	return agents
}

// Claimed returns the pipeline of the claim key, and its latest claim. The pipeline is "" if key is not a claim key.
func (n *Node) Claimed(key string) (pipeline string, c Claim) {
	if len(key) < len(ClaimPrefix) || key[:len(ClaimPrefix)] != ClaimPrefix {
		return "", c
	}
	pipeline = pipelineOfKey(key)
	return pipeline, n.entries[pipeline].Claim
}
