"""AUTH with certificates: who is let in, until when, and what changes without a restart."""
from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import NodeFailed
from jgroups_py.model.ports import SiteReporter
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.sealing.certificate_authority import sign_list
from jgroups_py.sealing.certificates import parse_own_certificate
from jgroups_py.sealing.identities import RevokedKeys
from jgroups_py.testing.bench import change, view_of
from tests.unit.protocols import test_auth
from tests.unit.protocols.test_auth import Authenticated, Suspicions, meet
from tests.unit.protocols.test_encrypt import exchange
from tests.unit.sealing.test_certificates import CERTIFICATE, DAY_NS, KEY, NOW_NS, authority, member

X509 = AuthConfig(authority="x509", identity="own.pem", trust="ca.pem", revoked="revoked")
CA = CERTIFICATE.public_bytes(Encoding.PEM)


def certified(name: str, own: bytes = b"", *, wall_ns: int = NOW_NS, net: int = 0) -> Authenticated:
    """A member of cluster demo that knows the time."""
    made = Authenticated(name, config=X509, net=net, files={
        "own.pem": own or member(name, "demo"), "ca.pem": CA, "revoked": RevokedKeys().as_text().encode()})
    made.read("", None, wall_ns=wall_ns)
    return made


def failures(one: Authenticated) -> list[str]:
    return [each.reason for each in one.stack.outputs if isinstance(each, NodeFailed)]


def test_members_with_certificates_of_one_authority_know_each_other_without_a_list():
    one, other = certified("A"), certified("B")
    assert not other.knows(one)
    assert meet(one, other) == [b"first"]
    assert one.knows(other)
    assert other.knows(one)
    found = other.auth.identity_of(one.me)
    assert (str(found), found.cluster, found.roles) == ("A@NYC", "demo", ("member",))


@pytest.mark.parametrize(("own", "reason"), [
    (member("A", "demo", by=authority("other")), "not of an authority that counts here"),
    (member("A", "demo", site="SFO"), "A@SFO is of another site than B@NYC"),
    (member("A", "demo", days=1), "has expired, at "),
    (member("A", "demo", roles=("operator",)), "has not the role 'member'"),
])
def test_a_member_whose_certificate_does_not_count_is_refused_with_the_reason(own, reason):
    class Lax(type(Authenticated("A").auth)):
        """An intruder does not check itself."""

        def unsuited(self, identity):
            return ""

    one = Authenticated("A", config=X509, auth=Lax, files={"own.pem": own, "ca.pem": CA,
                                                            "revoked": RevokedKeys().as_text().encode()})
    one.read("", None, wall_ns=NOW_NS)
    other = certified("B", wall_ns=NOW_NS + 2 * DAY_NS)
    assert meet(one, other) == []
    assert not other.knows(one)
    assert reason in other.log()


def test_a_certificate_without_its_key_is_of_no_use():
    one, other = certified("A"), certified("B")
    stolen = parse_own_certificate(member("C", "demo"))
    one.auth.authority.own_file = parse_own_certificate(member("A", "demo")).__class__(
        stolen.names, one.auth.authority.own_file.signer, stolen.chain, stolen.not_before_ns, stolen.not_after_ns)
    assert meet(one, other) == []
    assert "its proof is not of the key that it shows" in other.log()


def test_nobody_is_let_in_before_the_time_is_known():
    one = certified("A")
    other = Authenticated("B", config=X509, files={"own.pem": member("B", "demo"), "ca.pem": CA,
                                                   "revoked": RevokedKeys().as_text().encode()})
    assert meet(one, other) == []
    assert "the time is not known yet" in other.log()


def test_a_member_whose_certificate_expires_is_suspected_within_a_look():
    one, other = certified("A", member("A", "demo", days=1)), certified("B")
    meet(one, other)
    other.stack.inject(change(view_of("B", "A")), 0)
    other.read("", None, wall_ns=NOW_NS + DAY_NS)
    assert other.knows(one)
    other.read("", None, wall_ns=NOW_NS + DAY_NS + 1)
    assert other.above.seen == (one.me,)
    assert "does not believe A any more: its certificate has expired" in other.log()


@pytest.mark.parametrize("how", ["list", "key", "authority"])
def test_a_revoked_member_is_suspected_and_one_that_is_not_stays(how):
    one, other, third = certified("A"), certified("B"), certified("C")
    meet(one, other)
    meet(third, other)
    other.stack.inject(change(view_of("B", "A", "C")), 0)
    own = parse_own_certificate(member("A", "demo"))
    serial = x509.load_der_x509_certificate(own.chain[0]).serial_number
    if how == "list":
        other.read("revoked", sign_list(KEY, CERTIFICATE, [serial], NOW_NS, 30).encode(), wall_ns=NOW_NS)
    elif how == "key":
        other.read("revoked", RevokedKeys().with_key(own.names[0].key).as_text().encode(), wall_ns=NOW_NS)
    else:
        changed = authority("other")[1].public_bytes(Encoding.PEM)
        other.read("ca.pem", changed, wall_ns=NOW_NS)
    assert other.above.seen == ((one.me,) if how != "authority" else (one.me, third.me))
    other.take(one.send(b"still here"), "A")
    exchange(one, other)
    assert other.delivered() == []


def test_a_certificate_is_renewed_without_a_restart():
    one, other = certified("A", member("A", "demo", days=1)), certified("B")
    one.read("own.pem", member("A", "demo", days=30), wall_ns=NOW_NS)
    other.read("", None, wall_ns=NOW_NS + 2 * DAY_NS)
    assert meet(one, other) == [b"first"]
    # One of another name does not count: the member would not be itself any more.
    one.read("own.pem", member("Z", "demo"), wall_ns=NOW_NS)
    assert "own.pem: it is not for A@NYC in cluster demo" in one.log()


def test_an_operator_is_told_that_the_own_certificate_or_a_list_is_about_to_end():
    one = certified("A", member("A", "demo", days=10))
    for _ in range(3):
        one.read("", None, wall_ns=NOW_NS + 9 * DAY_NS + DAY_NS // 2)
    assert one.log().count("this member's certificate expires at ") == 1
    one.read("", None, wall_ns=NOW_NS + 11 * DAY_NS)
    assert "own.pem: its certificate has expired" in one.log()
    other = certified("B", member("B", "demo", days=400))
    other.read("revoked", sign_list(KEY, CERTIFICATE, [], NOW_NS, 1).encode(), wall_ns=NOW_NS + 2 * DAY_NS)
    assert "was to be replaced at" in other.log()


def test_a_member_whose_own_certificate_does_not_count_ends_with_the_reason():
    late = certified("A", member("A", "demo", days=1), wall_ns=NOW_NS + 2 * DAY_NS)
    assert "AUTH: own.pem: its certificate has expired, at 2026-09-22" in failures(late)[0]
    early = certified("A", wall_ns=NOW_NS - DAY_NS)
    assert "does not count before" in failures(early)[0]
    foreign = Authenticated("A", config=X509, files={"own.pem": member("A", "chat"), "ca.pem": CA,
                                                     "revoked": RevokedKeys().as_text().encode()})
    assert foreign.failed == ["AUTH: this member's own identity does not do here: its certificate own.pem is for "
                              "'chat', not for 'demo'"]


@pytest.mark.parametrize(("files", "error"), [
    ({"own.pem": member("Z", "demo")}, "called 'A', and its identity is that of 'Z'"),
    ({"own.pem": b"secret"}, "own.pem: it must have a private key"),
    ({"ca.pem": b"{}"}, "ca.pem: it has no certificate in PEM"),
    ({"revoked": b"{}"}, "revoked: not a file of revoked keys"),
    ({"revoked": sign_list(*authority("other"), [], NOW_NS, 1).encode()}, "revoked: a list .* none of the authorities"),
])
def test_files_that_do_not_fit_are_errors_at_the_start(files, error):
    good = {"own.pem": member("A", "demo"), "ca.pem": CA, "revoked": RevokedKeys().as_text().encode()}
    with pytest.raises(ConfigError, match=error):
        Authenticated("A", config=X509, files={**good, **files})


def test_a_certificate_for_several_clusters_counts_in_each_with_the_role_that_it_needs():
    files = {"ca.pem": CA, "revoked": RevokedKeys().as_text().encode()}
    both = [Authenticated(name, config=X509, net=1, files={**files, "own.pem": member(
        name, "chat", "demo", site=site, roles=("member", "relay"))}) for name, site in (("A", "NYC"), ("B", "SFO"))]
    for each in both:
        each.read("", None, wall_ns=NOW_NS)
    assert meet(*both) == [b"first"]
    assert both[1].auth.identity_of(both[0].me).site == "NYC"


class InSite(Suspicions, SiteReporter):
    """A layer above that makes this a member of site NYC."""

    def own_site(self) -> str:
        return "NYC"

    def site_report(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(("site", "roles", "reason"), [
    ("SFO", ("member", "relay"), r"A@SFO is of another site than this one, NYC \(RELAY's property site\)"),
    ("NYC", ("member",), "has not the role 'relay': each member of a site may become its relay"),
])
def test_with_relay_an_identity_must_be_of_its_site_and_have_the_role_relay(monkeypatch, site, roles, reason):
    monkeypatch.setattr(test_auth, "Suspicions", InSite)
    files = {"ca.pem": CA, "revoked": RevokedKeys().as_text().encode()}
    with pytest.raises(ConfigError, match=reason):
        Authenticated("A", config=X509, files={**files, "own.pem": member("A", "demo", site=site, roles=roles)})
    both = [Authenticated(name, config=X509, files={
        **files, "own.pem": member(name, "demo", roles=("member", "relay"))}) for name in "AB"]
    for each in both:
        each.read("", None, wall_ns=NOW_NS)
    assert meet(*both) == [b"first"]
