"""Seeds that once found a bug in RELAY, SWIM, below them or in blocks (design/track-record.md) find it no more."""
from __future__ import annotations

import pytest

from jgroups_py.simulator.runner import run_seed
from jgroups_py.testing.simulation import applications as applications  # registers those of profiles

FOUND = (
    ("relay", 984, "R3: a member that came back without an entry started beyond what it was owed"),
    ("relay", 1513, "R3: a member that merged without an entry took what came for the first"),
    ("relay", 11138, "R3: a relay whose site lacked again what it had acknowledged was not sent it again"),
    ("relay", 1872, "R10: a dead relay, whose HELLO came late, stayed a peer for ever"),
    ("limits", 2, "R3: a relay that founded its group got no report of losses"),
    ("limits", 4, "R3: BASE came before HELLO, from a relay that was no peer yet"),
    ("relay-storm", 38, "R3: no grace for the members of a relay that came back from a pause"),
    ("split-brain", 116, "R4: half of a split site repeated hearsay as a claim"),
    ("split-brain", 293, "R3: last messages that no member held were not declared lost"),
    ("split-brain", 226, "R3: a new relay did not have its predecessor's grace"),
    ("relay-crash", 194, "R3: a new member got a report of losses from before its time, as another site sent first"),
    ("site-crash", 61, "R9: a member with a site only from its disk owed it what others had dropped"),
    ("swim", 220, "W2: a member back alone at the only place that others would try was never contacted"),
    ("swim", 223, "W4: the end of an earlier start was believed of a later one that had not outbid it"),
    ("site-crash", 459, "R11: a hole was kept open for holders that were all there"),
    ("split-brain", 360, "R3: what a member requested in vain during a grace was not reported as lost at its end"),
    ("relay-crash", 1962, "R9: the audit took what a relay delivered in the step of its view for older than its SYNC"),
    ("split-brain", 1902, "R3: a founder took what half of a site had seen for where the other began"),
    ("site-crash", 589, "R11: a relay whose disk was empty kept a hole open though all holders were there"),
    ("operators", 172, "R6: a drain given before `online` was carried out after it, in a process that had been paused"),
    ("operators", 198, "R6: a drain that had crossed a split was carried out after `online`"),
    ("topics", 7000090, "R7: the members of an older view were taken for those of the epoch that a FORWARD had"),
    ("topics", 9000123, "R3: a BASE was refused, and the next epoch's FORWARD was taken for the first that was meant"),
    ("wan", 67, "R12: a hole on a long path was filled at one message a round"),
    ("wan", 82, "R6: unicasts were given up behind such a hole"),
    ("wan", 99, "R6: the same, after a relay had died"),
    ("wan", 118, "R12: a site 500 ms away stayed out of the bridge, as its answers came after discovery's search"),
    ("wan", 125, "R12: the same"),
    ("wan", 129, "R12: a leader gave up merges just before its partner, 370 ms away, was ready"),
    ("storm-topics", 0, "R11: (checker) what no member of the other site had subscribed to was taken for forgotten"),
    ("storm-topics", 102, "R11: (checker) so was what had no subscriber until a member started later"),
    ("storm-topics", 148, "R11: (checker) the same"),
    ("large", 196, "R5: (checker) a split of the own site was no disturbance"),
    ("site-states", 39, "G: a late answer to an earlier request for a state was taken for that to the next one"),
    ("mqtt-sites", 1074, "Q1: what one part of a split site missed of the other part counted as lost between sites"),
    ("mqtt-sites", 1326, "R3: a digest that a broker multicast 15 us before the end of the run counted as lost"),
    ("sealed-disks", 30, "R9: (checker) a member that crashed with a write its full disk had refused was to have all"),
    ("sealed", 115, "K3: a recorded frame of a live member was believed by a member that had just started"),
    ("mqtt", 96, "Q10: (checker) a session that came to a node with another one of its client counted as moved"),
    ("mqtt", 141, "Q10: what a node sent to a session's former node after `handover_s` was lost there"),
    ("mqtt", 248, "Q8: what a client had acknowledged with PUBACK stayed in the copies of its session"),
    ("mqtt", 259, "Q10: the same: a packet id was never free in the copy"),
    ("mqtt", 269, "Q1: (checker) a node with a slow application had not taken the last messages when it was judged"),
    ("mqtt", 395, "Q10: (checker) a filter without SUBACK was owed after the end of its node"),
    ("mqtt", 423, "Q10: (checker) a node was to have the copy that an earlier life of it had had"),
    ("mqtt", 505, "Q1: (checker) a session that a clean start had begun was to have a message for the one before"),
    ("mqtt", 511, "Q10: (checker) a node was to have a copy that it had not acknowledged"),
    ("mqtt", 580, "Q10: a session was lost when the node that waited for its copy ended"),
    ("mqtt", 584, "Q9: (checker) the will of a connection that waited for CONNACK counted as cancelled"),
    ("mqtt", 10115, "Q10: (checker) an adoption repeated one publication of a message, not each"),
    ("mqtt", 11338, "Q10: copies that a node was sent before its filters were known counted as there"),
    ("mqtt", 10080, "Q10: nodes that ended at once: the copy of a session at one, claimed by the other, was not found"),
    ("mqtt", 11883, "Q10: a node that claimed a session from one that had claimed it itself began another"),
    ("mqtt", 10912, "Q6: what came late for a group, for a member whose session had moved on, was dropped"),
    ("mqtt", 12040, "Q6: a node without a member dropped a message for a group, as the next one was not known yet"),
    ("mqtt", 11710, "Q10: what a session's node got late was dropped when the session came back to it"),
    ("mqtt", 10383, "Q1: (checker) what a node that was away had for an ended node was to be in the adopted session"),
    ("mqtt", 10634, "Q10: (checker) a filter without SUBACK was owed where an adopted session had gone to"),
    ("mqtt", 11869, "Q10: (checker) a message of QoS 2 was owed whose node ended before PUBREC"),
    ("mqtt", 11482, "Q3: (checker) all was to be in order at a node of another part of a split group"),
    ("mqtt", 12742, "Q1: (checker) a message published again was owed to a session that had unsubscribed"),
    ("mqtt", 13304, "Q6: (checker) QoS 2 that was on its way to a node that ended was owed to another"),
    ("mqtt", 13401, "Q10: (checker) a node that had left, and nobody knew it, counted as known to have ended"),
    ("tokens", 11, "K3: frames of a sender that was forgotten and proved itself again within 5 s opened twice"),
    ("tokens", 16, "L: a member that was refused once stayed out while others were challenged"),
    ("attacker", 2020, "L: a recorded unicast between two others had another place taken for its sender's"),
    ("tokens", 50070, "K4: (checker) a forged token whose last byte was drawn as the issuer's own tag has it"),
    ("tokens", 50220, "S9: (checker) losses reported in a view that their sender never installed were to be so again"),
    ("view-keys", 50272, "K6: (checker) an excluded intruder was to seal with a new key"),
    ("attacker-site", 50002, "R6: another site's relay named a member before it was in the view of its own site"),
    ("attacker-site", 50019, "R6: another site's relay named a member before a third site heard of it"),
    ("attacker-site", 90057, "K8: (checker) a relay without a certificate was the first to name its site, and lied"),
    ("hostile", 114, "L: a state for a forged request was kept for as long as the member it named was in the view"),
    ("order-sites", 60055, "F: (checker) what RELAY numbers, and what it does not, were one stream of NO_TOTAL_ORDER"),
    ("dict", 60030, "D4: a member cut off before a copy came began with nothing, and was not told of its writes"),
    ("cache-split", 60091, "N3: a site that knew one half of another one missed the notices of the other half"),
)
"""Profile, seed, what it found. A seed shows its bug in the plan that it drew then: should plans change, replace it."""


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "seed"), [found[:2] for found in FOUND])
def test_a_seed_that_found_a_bug_finds_it_no_more(profile: str, seed: int) -> None:
    outcome = run_seed(profile, seed)
    assert outcome.violations == (), outcome.command
