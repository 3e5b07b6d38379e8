"""deploy/: judged by schemas, built as an image, and run as two sites; each judge refuses a planted error."""
from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jgroups_py.config.load import load
from tests.deploy.image import ROOT, Builder
from tests.deploy.kustomize import rendered
from tests.deploy.topology import Topology

pytestmark = pytest.mark.deploy
DEPLOY = ROOT / "deploy"
UNIT = ROOT / "jgroups_py" / "ops" / "files" / "jgroups-member@.service"
MANIFESTS = sorted(path for path in (DEPLOY / "kubernetes").rglob("*.yaml") if path.name != "kustomization.yaml")
MOST_EXPOSURE = 3.0
BIN = Path(sys.executable).parent


def is_up(found: dict[str, Any], site: str) -> bool:
    """Whether a report of sites has this one UP."""
    return bool(found["sites"].get(site, {}).get("status") == "UP")


def judged(*words: object) -> subprocess.CompletedProcess[str]:
    """What a judge says."""
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=120)


def changed(path: Path, folder: Path, old: str, new: str) -> Path:
    """A copy with an error planted."""
    text = path.read_text()
    assert old in text
    copy = folder / path.name
    copy.write_text(text.replace(old, new))
    return copy


def compose(path: Path) -> subprocess.CompletedProcess[str]:
    return judged(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", path)


def test_the_compose_file_fits_its_schema_and_a_misspelt_key_does_not(tmp_path: Path) -> None:
    assert compose(DEPLOY / "compose.yaml").returncode == 0
    refused = compose(changed(DEPLOY / "compose.yaml", tmp_path, "    command:", "    comand:"))
    assert refused.returncode == 1
    assert "'comand' was unexpected" in refused.stdout


def kubernetes(*paths: Path) -> subprocess.CompletedProcess[str]:
    return judged(BIN / "kubernetes-validate", "--strict", *paths)


def test_the_manifests_fit_the_schemas_of_kubernetes() -> None:
    assert len(MANIFESTS) >= 6
    done = kubernetes(*MANIFESTS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "old", "new"), [
    ("statefulset.yaml", "replicas: 3", 'replicas: "three"'),
    ("statefulset.yaml", "podManagementPolicy", "podManagmentPolicy"),
    ("service.yaml", "publishNotReadyAddresses: true", 'publishNotReadyAddresses: "yes"'),
    ("disruption.yaml", "maxUnavailable: 1", "maxUnavailable: [1]"),
    ("network.yaml", "policyTypes: [Ingress]", "policyTypes: Ingress"),
])
def test_an_error_in_a_manifest_is_refused(name: str, old: str, new: str, tmp_path: Path) -> None:
    assert kubernetes(changed(DEPLOY / "kubernetes" / "base" / name, tmp_path, old, new)).returncode != 0


def test_the_option_kube_ping_changes_arguments_that_are_there() -> None:
    component = yaml.safe_load((DEPLOY / "kubernetes" / "kube-ping" / "kustomization.yaml").read_text())
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "base" / "statefulset.yaml").read_text())["spec"]["template"]["spec"]
    steps = [step for patch in component["patches"] for step in yaml.safe_load(patch["patch"])]
    tested = {step["path"].rpartition("/")[2]: step["value"] for step in steps if step["op"] == "test"}
    assert len(tested) == 2
    assert all(pod["containers"][0]["args"][int(at)] == value for at, value in tested.items())
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("site", ["nyc", "sfo"])
def test_kustomize_makes_a_site_and_its_members_look_for_both_sites(site: str) -> None:
    made = rendered(DEPLOY / "kubernetes" / site)
    assert {one["metadata"].get("namespace") for (kind, _), one in made.items() if kind != "Namespace"} == {site}
    config = next(one["data"] for (kind, _), one in made.items() if kind == "ConfigMap")
    assert config["SITE"] == site.upper()
    assert all(f"jgroups.{each}.svc.cluster.local" in config["BRIDGE_QUERY"] for each in ("nyc", "sfo"))
    assert ("Role", "jgroups-kube-ping") not in made, "an option that nobody has asked for"


def test_kustomize_gives_the_option_kube_ping_to_the_account_of_its_own_namespace(tmp_path: Path) -> None:
    copy = tmp_path / "kubernetes"
    shutil.copytree(DEPLOY / "kubernetes", copy)
    with (copy / "nyc" / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.write("components: [../kube-ping]\n")
    made = rendered(copy / "nyc")
    binding = made["RoleBinding", "jgroups-kube-ping"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "jgroups", "namespace": "nyc"}]
    pod = made["StatefulSet", "jgroups"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("jgroups", True)
    assert "--stack=/etc/jgroups/kube-site.xml" in pod["containers"][0]["args"]


def test_the_unit_is_right_to_systemd_and_exposes_little(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    shutil.copy(UNIT, unit)
    verified = judged("systemd-analyze", "verify", "--man=no", unit)
    assert verified.returncode == 0, verified.stdout
    assert UNIT.name not in verified.stdout
    found = judged("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}", unit)
    assert found.returncode == 0, found.stdout[-500:]
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", found.stdout)
    assert exposure is not None
    assert float(exposure[1]) < MOST_EXPOSURE


def test_systemd_tells_of_an_error_in_the_unit_and_of_one_that_exposes_more(tmp_path: Path) -> None:
    misspelt = changed(UNIT, tmp_path, "WatchdogSec=10", "WatchdogSecs=10")
    wrong = judged("systemd-analyze", "verify", "--man=no", misspelt)
    assert "WatchdogSecs" in wrong.stdout
    opened = UNIT.read_text().partition("NoNewPrivileges")[0]
    (tmp_path / UNIT.name).write_text(opened)
    judgement = judged("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}",
                       tmp_path / UNIT.name)
    assert judgement.returncode != 0


def test_the_stacks_are_right_and_a_misspelt_property_is_not(tmp_path: Path) -> None:
    for name in ("site.xml", "kube-site.xml", "bridge.xml"):
        assert load(str(DEPLOY / "stacks" / name), {"bind_addr": "10.0.0.1"}).warnings == ()
    shutil.copy(DEPLOY / "stacks" / "bridge.xml", tmp_path)
    wrong = changed(DEPLOY / "stacks" / "site.xml", tmp_path, "dns_query=", "dns_qery=")
    refused = judged(BIN / "jgroups", "lint", wrong, "-p", "bind_addr=10.0.0.1")
    assert refused.returncode != 0
    assert "dns_query" in refused.stdout


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """The image, built."""
    found = Builder(tmp_path_factory.mktemp("images"))
    found.build()
    yield found
    found.remove()


def test_the_image_runs_as_another_user_who_may_write_nowhere_but_to_its_volume(builder: Builder) -> None:
    container = builder.container()
    found = judged(*builder.command(container, ["id", "-u"]))
    assert found.stdout.strip() == "10001"
    code = ("import os; print(sorted(at for at, _, _ in os.walk('/') if os.access(at, os.W_OK) "
            "and not at.startswith(('/proc', '/dev', '/sys'))))")
    writable = judged(*builder.command(container, ["python3", "-c", code])).stdout
    assert writable.strip() == str(["/run/lock", "/tmp", "/var/lib/jgroups", "/var/tmp"])
    assert judged(*builder.command(container, ["jgroups", "--version"])).stdout.startswith("jgroups_py ")
    config = json.loads(builder.buildah("inspect", "--type", "image", "localhost/jgroups_py"))["Docker"]["config"]
    assert config["User"] == "10001:10001"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"][0] == "CMD"


def test_an_image_without_its_wheels_is_not_built(builder: Builder, tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "stacks", tmp_path / "stacks")
    shutil.copy(DEPLOY / "Containerfile", tmp_path)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "README").touch()
    failed = judged(*builder.words, "bud", "--isolation", "chroot", "--build-arg", "BASE=localhost/jgroups-base",
                    tmp_path)
    assert failed.returncode != 0
    assert "jgroups_py" in failed.stdout


def test_two_sites_of_the_compose_file_are_healthy_and_go_on_after_kills_and_planned_stops(
    builder: Builder, tmp_path: Path,
) -> None:
    with Topology(builder, DEPLOY / "compose.yaml", tmp_path) as running:
        for name in running.services:
            running.start(name)
        for name in running.services:
            running.wait(name, "/v1/members", lambda found: len(found["members"]) == 2)
        for name, other in (("nyc-a", "SFO"), ("nyc-b", "SFO"), ("sfo-a", "NYC"), ("sfo-b", "NYC")):
            running.wait(name, "/v1/sites", lambda found, other=other: is_up(found, other))
        health = json.loads(builder.buildah("inspect", "--type", "image", "localhost/jgroups_py"))
        check = health["Docker"]["config"]["Healthcheck"]["Test"][1:]
        for name in running.services:
            command = builder.command(running.containers[name], check)
            running.within(name, *command)
        relay = running.ask("nyc-a", "/v1/sites")["relay"]
        left = "nyc-b" if relay == "nyc-a" else "nyc-a"
        running.kill(relay)
        running.wait(left, "/v1/sites", lambda found: found["is_relay"] and is_up(found, "SFO"))
        running.start(relay)
        running.wait(relay, "/v1/members", lambda found: len(found["members"]) == 2)
        assert running.kill(left, signal.SIGTERM) == 0, "it leaves, and its container ends well"
        running.wait(relay, "/v1/members", lambda found: len(found["members"]) == 1)
