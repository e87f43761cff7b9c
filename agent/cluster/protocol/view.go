package protocol

import "time"

// View is what a node knows of the cluster, for people.
type View struct {
	Held     bool   // this agent has a session
	Draining bool   // it gives its pipelines away, or has
	Last     Notice // about this agent, the zero Notice for none
	Members  []MemberView
	Claims   []ClaimView
}

// MemberView is a session.
type MemberView struct {
	Session
	Gone   bool          // it has ended
	Silent time.Duration // since it was seen to change, 0 for this agent's own
}

// ClaimView is a pipeline that this agent would run, or of which a member has the claim.
type ClaimView struct {
	Claim                 // zero but for Pipeline, its id, while there is none
	Last    Notice        // about the pipeline, the zero Notice for none
	Pending time.Duration // how long a write of this agent has gone without a known outcome
}

// View returns what the node knows.
func (n *Node) View(now time.Duration) View {
	v := View{Held: n.session.held, Draining: n.session.leaving, Last: n.noticed[""]}
	if n.session.held {
		v.Members = append(v.Members, MemberView{Session: n.session.value})
	}
	for _, agent := range sorted(n.peers) {
		if p := n.peers[agent]; p.Stamp.Write != 0 { // of others there is only what a claim says
			v.Members = append(v.Members, MemberView{Session: p.Session, Gone: p.gone, Silent: now - p.changed})
		}
	}
	for _, id := range shown(n) {
		c := ClaimView{Claim: n.entries[id].Claim, Last: n.noticed[id], Pending: n.claims[id].unsettled(now)}
		if c.Pipeline = id; c.Owner != "" && c.Epoch == 0 {
			c.Epoch = n.entries[id].revision // the write that claimed it is the latest
		}
		v.Claims = append(v.Claims, c)
	}
	return v
}

// shown returns the ids of claims that people should see: what has an owner, or is to have one, and what
// was the cluster's and is not deleted.
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

// Lag returns how long the write of a claim has gone longest without a known outcome.
func (n *Node) Lag(now time.Duration) (most time.Duration) {
	for id := range n.claims {
		most = max(most, n.claims[id].unsettled(now))
	}
	return most
}

// HeldUntil returns when this agent's session ends by its clock unless it is renewed; 0 while there is none.
func (n *Node) HeldUntil() time.Duration {
	if !n.session.held {
		return 0
	}
	return n.session.renewed + n.Timing.SelfStop
}

// Live returns the agents whose sessions are not known to have ended, this one the first of them; none while it has no session.
func (n *Node) Live() (agents []string) {
	if !n.session.held {
		return nil
	}
	for _, s := range n.live(n.session.value) {
		agents = append(agents, s.Agent)
	}
	return agents
}

// Claimed returns the pipeline of the claim under a key, and the claim as it was seen last. The
// pipeline is "" when the key is not that of a claim.
func (n *Node) Claimed(key string) (pipeline string, c Claim) {
	if len(key) < len(ClaimPrefix) || key[:len(ClaimPrefix)] != ClaimPrefix {
		return "", c
	}
	pipeline = pipelineOfKey(key)
	return pipeline, n.entries[pipeline].Claim
}
