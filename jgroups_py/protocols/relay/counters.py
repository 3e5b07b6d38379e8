"""RELAY's counters: `jgroups counters` lists them with these texts."""
from jgroups_py.model.counters import counter, declare, drop, figure, histogram

RELAY_COUNTERS = declare(
    counter("forwarded", "Messages of this site sent to other sites, once for each."),
    counter("disseminated", "Messages of other sites multicast here, as relay."),
    counter("delivered_remote", "Messages of other sites passed up to the application."),
    counter("copies_sent", "Held messages copied to other holders of this site."),
    counter("needs", "Requests of other relays to send again from some number on (NEED)."),
    counter("probes", "Inquiries sent to other relays that had not acknowledged anything for a while (PROBE)."),
    counter("delivery_checks", "Checks of what all members of this site have delivered, for receipts (CHECK)."),
    counter("syncs_again", "SYNCs repeated to members that had not answered."),
    counter("rewinds", "Origins of which messages are multicast again, because a member lacks them."),
    counter("receipts", "Receipts given: every member of the named sites has the message."),
    counter("receipts_lost", "Receipts that report a loss: a member of some site will not get the message."),
    counter("states_provided", "States given to members of other sites."),
    counter("states_fetched", "States that this relay fetched from another site for a member."),
    counter("states_failed", "States that this relay tried to fetch and did not get."),
    counter("states_installed", "States of other sites that this member took over."),
    counter("restored_messages", "Messages held for other sites that were read from the journal at the start."),
    counter("journal_failures", "How often the journal could not be written."),
    counter("journal_damaged_files", "Files of the journal that were found damaged at the start."),
    counter("journal_cut_bytes", "Bytes at the end of such files that could not be read."),
    counter("journal_records_skipped", "Records within such files that could not be read."),
    counter("journal_records_not_opened", "Those of them that are encrypted and do not open: changed "
                                          "without the key."),
    drop("hold_keyrings_refused_dropped", "Changes of hold_keyring's file that cannot be used; the former keys stay."),
    drop("journal_messages_expired", "Messages read from the journal that are older than what is held."),
    counter("forgotten", "Origins forgotten: they are gone, and every site has what they sent."),
    counter("refused", "REFUSED sent to relays of which a higher epoch of their site is known (relay rule 11)."),
    counter("fenced", "REFUSED received: another site has a higher epoch of this site (relay rule 11)."),
    counter("sites_given_up", "How often a site was declared OFFLINE."),
    drop("declared_lost", "Messages of this site declared lost for another one; reported to the application."),
    drop("lost", "Messages of other sites that this member will never get; reported to the application."),
    drop("missed_in_site", "Messages of this member's own site that it will never get; reported to the application."),
    drop("unreachable", "Unicasts to members of other sites that are not known to be delivered; reported to the "
                        "application."),
    counter("unicasts_retransmitted", "Unicasts to members of other sites that were sent again."),
    drop("unicasts_to_unknown", "Unicasts for a member that is not in this site any more."),
    drop("unicasts_without_relay", "Unicasts for a site of which no relay is known; their origin sends them again."),
    drop("unicasts_not_next", "Unicasts that are not the next one of their origin, duplicates among them; the origin "
                              "retransmits what is missing."),
    drop("unicast_acks_undeliverable", "Acknowledgements of unicasts for a member or a site that is not there; the "
                                       "origin sends the unicasts again."),
    drop("passed_by", "Messages of which only the numbers are sent to a site, since none of their topics is "
                      "subscribed there."),
    drop("for_other_sites", "Messages of which only the numbers are sent to a site, since their sender names the sites "
                            "that they are for."),
    drop("passed_by_refused", "Messages of which only the numbers came though their topics are subscribed here by now; "
                              "they are requested."),
    drop("forwards_deferred", "Messages that came while a state is fetched that may hold them; they are requested "
                              "after it."),
    drop("forwards_ahead", "Messages of another site that came before one that is missing; they are requested."),
    drop("forwards_again", "Messages of another site that came more than once."),
    drop("disseminate_before_sync", "Messages of other sites multicast by a member that is not the relay, or before "
                                    "its SYNC."),
    drop("disseminate_ahead", "Messages multicast by the relay before one that is missing here."),
    drop("disseminate_again", "Messages multicast by the relay that were delivered before."),
    drop("base_before_sync", "BASE multicast by a member that is not the relay, or before its SYNC."),
    drop("non_peer_dropped", "Messages on the bridge from a relay that is not in its view, or has not sent HELLO."),
    drop("non_member_dropped", "RELAY's messages within the site that come from outside the view, or without "
                               "reliability."),
    drop("from_bridge_while_not_relay", "Messages on the bridge while this member is no relay; at a standby these are "
                                        "HELLOs."),
    counter("standby_took_over", "How often this member became the relay while it waited on the bridge."),
    drop("foreign_claims_dropped", "Messages on the bridge in which a site speaks of sites, members or origins that "
                                   "are not its own."),
    drop("unknown_site_dropped", "Messages of relays of sites that the trust file does not list or has revoked, or "
                                 "beyond max_sites."),
    drop("uncertified_site_dropped", "Messages of relays on the bridge whose identity (AUTH) is of another site than "
                                     "the one that they name."),
    drop("orders_refused_dropped", "Orders about sites by members whose identity has not the role operator."),
    drop("withheld", "Messages of which only the numbers are sent to a site, since the trust file lets it receive no "
                     "more; unicasts and requests for a state are not sent at all."),
    drop("not_taken_dropped", "Messages of a site that the trust file lets send nothing; of multicasts the numbers "
                              "count."),
    drop("withheld_dropped", "Messages of other sites of which only the numbers came, as these withhold them, or as "
                             "they are for other sites."),
    counter("trust_files_read", "Changes of the trust file that were taken over."),
    counter("trust_files_refused", "Changes of the trust file that cannot be used; the former one counts."),
    drop("refusals_delayed", "REFUSED of a site that had this one raise its epoch a moment ago; obeyed later."),
    drop("unexpected_on_bridge", "Messages on the bridge that have no meaning there."),
    drop("releases_refused", "HELLOs of relays whose version may not run beside this one; what is for their site is "
                             "held."),
    drop("hello_after_goodbye", "HELLOs of relays that have sent GOODBYE."),
    drop("hello_of_own_site", "HELLOs of a relay of a site of the same name."),
    drop("sync_of_no_coordinator", "SYNCs of a member that is not the coordinator."),
    drop("have_outside_view", "Answers to a SYNC (HAVE) of another view, or a second one."),
    drop("checked_in_other_view", "Answers to a check for receipts given in another view."),
    drop("ends_of_no_coordinator", "ENDS of a member that is not the coordinator."),
    drop("trim_of_no_coordinator", "TRIMs of a member that is not the coordinator."),
    drop("confirm_of_other_view", "Confirmations of backups given in another view."),
    drop("stale_state_dropped", "Parts of a state for which this member, or its site, does not wait."),
    drop("pause_of_other_view", "Requests to pause for a state made in another view."),
    drop("unwanted_chunks_dropped", "Parts of a state that the application wrote for a request that is over."),
    drop("clocks_refused", "Clocks of other holders that show an implausible time."),
    drop("implausible_dropped", "Numbers and epochs that are further ahead than any origin or site can have come."),
    counter("failovers", "Take-overs: this member became the relay in place of another one."),
    *histogram("failover", "Take-overs, from the view that made this member the relay until every site that is UP has "
                           "acknowledged a message to it, or its HELLO came and nothing is held for it"),
    *histogram("delay_<site>", "As relay: batches, from when they were held to the acknowledgement by the site"),
    figure("numbered", "Messages that this member has numbered."),
    figure("held_messages", "Messages held for other sites now."),
    figure("held_bytes", "Their payload bytes."),
    figure("unicasts_waiting", "Unicasts to members of other sites that are not acknowledged yet."),
    figure("journal_bytes", "Size of the journal."),
    figure("journal_files", "Files of the journal."),
    figure("journal_former_keys", "Files of the journal that are encrypted with another key than the active one; while "
                                  "there are any, that key must not be retired."),
    figure("journal_fails", "1 while the journal cannot be written."),
    figure("status_<site>", "The site's status at this member: 0 UP, 1 DOWN, 2 OFFLINE."),
    figure("numbered_<site>", "Messages meant for the site."),
    figure("acknowledged_<site>", "Of these, acknowledged by the site."),
    figure("lost_<site>", "Of these, lost for the site."),
    figure("held_<site>", "Of these, held for the site."),
)
