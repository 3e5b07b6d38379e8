"""What GMS counts."""
from jgroups_py.model.counters import counter, declare, drop, figure

GMS_COUNTERS = declare(
    counter("views_installed", "Views installed."),
    counter("ballots", "Ballots begun, as coordinator or in its place."),
    counter("ballots_outbid", "Ballots given up for a higher one."),
    counter("silent_members", "Members left out of a ballot because they did not answer."),
    counter("silent_joiners", "Joiners left out of a ballot because they did not answer."),
    counter("changes_taken_over", "Changes that another coordinator had begun and this one completed."),
    counter("members_gone", "Members that left or failed."),
    counter("times_excluded", "How often this member was excluded from the group."),
    counter("joins_given_up", "How often a coordinator that was asked to let us in did not answer."),
    counter("joiners_challenged", "Joiners asked to show that they receive where they say."),
    drop("views_without_key", "Views that came without the key that members seal with."),
    drop("unidentified_refused", "Joiners, and groups to merge with, that AUTH does not let in, or not under this "
                                 "name."),
    drop("joiners_refused", "Joiners turned away: too many wait."),
    drop("releases_refused", "Joiners, groups to merge with, and refusals of coordinators: their version may not run "
                             "beside one here."),
    counter("merges_led", "Merges led by this member."),
    counter("merges_put_off", "Merges put off because the counters of the views are far apart; they approach each "
                              "other first."),
    counter("merges_abandoned", "Merges given up: a part of them did not answer in time."),
    counter("counter_steps", "How often the view counter was raised in order to approach that of another group."),
    drop("views_held_back", "Views not installed because this member promised a newer ballot; its owner decides."),
    drop("odd_views_heard", "Views without this member that name it neither as leaving nor follow from what it "
                            "accepted."),
    drop("old_views_heard", "Views not later than the current one."),
    drop("leaves_not_asked_for", "Leaves that another process requested in this member's name; it joins again."),
    drop("non_member_views_refused", "Views of a process outside the view."),
    drop("non_member_ballots_refused", "Ballots of a process outside the view."),
    drop("ballots_of_others_refused", "Ballots whose owner is not their sender."),
    drop("implausible_ballots_refused", "Ballots whose round is further ahead than any can have come."),
    drop("implausible_counters_refused", "Views whose counter is further ahead than any can have come."),
    drop("cuts_without_promise", "Cuts of a ballot that this member has not promised."),
    drop("nacks_refused", "Claims of a higher ballot that makes no sense."),
    drop("answers_unasked", "Answers to a ballot that is over, or by a member that was not asked."),
    drop("stale_view_of_other_view", "Answers about another view than the one that was asked about."),
    drop("key_orders_refused", "Orders of a new key of the view by members without the role operator, or by "
                               "non-members."),
    drop("joins_of_others_refused", "Join requests for a process other than their sender."),
    figure("view_counter", "Counter of the view."),
    figure("members", "Members of the view."),
)
