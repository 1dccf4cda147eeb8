"""The manifests: rendered by kustomize, valid, restricted, and true to what the processes serve."""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

import kubernetes_validate
import pytest
import yaml

from jobsctl.__main__ import run
from jobsctl.commands.options import global_options
from jobsctl.exits import ExitCode
from servicekit.health import LIVENESS, READINESS
from tests.unit.deploy.described import DEPLOY, KUBERNETES, Document, Process, deployed, of_kind, rendered

EXAMPLE: Final = "overlays/example"
FOREIGN: Final = frozenset({"Certificate", "PodMonitor"})
"""Kinds of operators, whose schemas Kubernetes does not have."""

processes = pytest.mark.parametrize(
    "process", list(deployed(EXAMPLE).values()), ids=lambda process: process.name
)


def pods(documents: Sequence[Document]) -> Iterator[Document]:
    """What runs."""
    for document in documents:
        if document["kind"] in {"Deployment", "Job"}:
            yield document["spec"]["template"]
        if document["kind"] == "CronJob":
            yield document["spec"]["jobTemplate"]["spec"]["template"]


@functools.cache
def schema_of_release() -> str:
    return str(kubernetes_validate.latest_version())


def test_every_manifest_fits_the_schema_of_kubernetes() -> None:
    for document in rendered(EXAMPLE):
        if document["kind"] not in FOREIGN:
            kubernetes_validate.validate(json.loads(json.dumps(document)), schema_of_release(), strict=True)


def test_the_example_uses_every_component() -> None:
    names = {folder.name for folder in (KUBERNETES / "components").iterdir()}
    read = (KUBERNETES / EXAMPLE / "kustomization.yaml").read_text()
    assert set() == {name for name in names if f"components/{name}" not in read}


def test_nothing_runs_as_root_or_may_become_it() -> None:
    for pod in pods(rendered(EXAMPLE)):
        (container,) = pod["spec"]["containers"]
        assert {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items() <= pod["spec"][
            "securityContext"
        ].items()
        assert {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        } == container["securityContext"]
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert {"requests", "limits"} == container["resources"].keys()


@pytest.mark.parametrize("process", list(deployed("base").values()), ids=lambda one: one.name)
def test_probes_ask_at_the_port_that_is_listened_on_by_names_that_are_served(process: Process) -> None:
    (container,) = process.described["containers"]
    probes = {kind: container[f"{kind}Probe"]["grpc"] for kind in ("startup", "liveness", "readiness")}
    port = process.listens_at()
    assert {
        "startup": {"port": port, "service": LIVENESS},
        "liveness": {"port": port, "service": LIVENESS},
        "readiness": {"port": port, "service": READINESS},
    } == probes


@processes
def test_probes_over_tls_are_commands_that_jobsctl_takes(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    (container,) = process.described["containers"]
    for kind, service in (("startup", LIVENESS), ("liveness", LIVENESS), ("readiness", READINESS)):
        probe = container[f"{kind}Probe"]
        program, *arguments = probe["exec"]["command"]
        assert ("jobsctl", service) == (program, arguments[-1])
        assert f"--server=localhost:{process.listens_at()}" in arguments
        assert ExitCode.OK == run([*arguments, "--help"])
    assert "Usage: jobsctl health" in capsys.readouterr().out


@processes
def test_a_certificate_has_the_names_by_which_a_process_is_called(process: Process) -> None:
    certificate = of_kind(rendered(EXAMPLE), "Certificate")[process.name]["spec"]
    secrets = [volume["secret"]["secretName"] for volume in process.described["volumes"]]
    assert certificate["secretName"] in secrets
    assert {process.name, "localhost"} <= set(certificate["dnsNames"])


@processes
def test_ports_are_those_that_are_listened_on(process: Process) -> None:
    (container,) = process.described["containers"]
    service = of_kind(rendered(EXAMPLE), "Service")[process.name]["spec"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {"grpc": process.listens_at(), "metrics": process.listens_at("metrics_listen")} == ports
    assert [process.listens_at()] == [port["port"] for port in service["ports"]]
    assert "None" == service["clusterIP"]


@processes
def test_a_file_that_is_named_is_mounted(process: Process) -> None:
    (container,) = process.described["containers"]
    mounted = {each["mountPath"] for each in container.get("volumeMounts", ())}
    files = {value for name, value in process.environment.items() if name.endswith("_FILE")}
    assert files == {path for path in files if path.rpartition("/")[0] in mounted}


def test_targets_are_services_of_ours_at_their_ports() -> None:
    served = {
        f"dns:///{name}:{each['spec']['ports'][0]['port']}"
        for name, each in of_kind(rendered(EXAMPLE), "Service").items()
    }
    targets = {
        value
        for process in deployed(EXAMPLE).values()
        for name, value in process.environment.items()
        if name.endswith("_TARGET")
    }
    assert 2 == len(targets)
    assert targets <= served


@processes
def test_disruptions_and_autoscalers_mean_the_deployment(process: Process) -> None:
    documents = rendered(EXAMPLE)
    budget = of_kind(documents, "PodDisruptionBudget")[process.name]["spec"]
    scaler = of_kind(documents, "HorizontalPodAutoscaler")[process.name]["spec"]
    labels = of_kind(documents, "Deployment")[process.name]["spec"]["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert {"apiVersion": "apps/v1", "kind": "Deployment", "name": process.name} == scaler["scaleTargetRef"]


def test_whoever_is_scaled_has_no_number_of_replicas_to_fall_back_to() -> None:
    assert {2} == {each["spec"]["replicas"] for each in of_kind(rendered("base"), "Deployment").values()}
    assert [] == [
        name for name, each in of_kind(rendered(EXAMPLE), "Deployment").items() if "replicas" in each["spec"]
    ]


def test_policies_let_through_what_the_processes_call() -> None:
    policies = of_kind(rendered(EXAMPLE), "NetworkPolicy")
    names = {process.name for process in deployed(EXAMPLE).values()}
    selected = [each["spec"]["podSelector"] for each in policies.values()]
    assert {"app.kubernetes.io/part-of": "hourglass"} == policies["hourglass"]["spec"]["podSelector"][
        "matchLabels"
    ]
    assert names <= policies.keys()
    for name in names:
        assert {"matchLabels": {"app.kubernetes.io/name": name}} in selected


@pytest.mark.parametrize("folder", ["base", EXAMPLE])
def test_a_verification_asks_job_service_with_what_jobsctl_reads(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = of_kind(rendered(folder), "CronJob")["verify"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program, *arguments = container["args"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    mounted = {each["mountPath"] for each in container.get("volumeMounts", ())}
    files = {value.rpartition("/")[0] for value in variables.values() if value.startswith("/")}
    port = deployed(folder)["jobs-service"].listens_at()
    assert ("jobsctl", ExitCode.OK) == (program, run([*arguments, "--help"]))
    assert "Usage: jobsctl verify" in capsys.readouterr().out
    assert f"jobs-service:{port}" == variables["JOBSCTL_SERVER"]
    assert set() == variables.keys() - {one.envvar for one in global_options(with_defaults=True)}
    assert mounted == files


def test_over_tls_a_verification_proves_itself_and_sees_no_private_key() -> None:
    pod = of_kind(rendered(EXAMPLE), "CronJob")["verify"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    secrets = {volume["secret"]["secretName"]: volume["secret"].get("items") for volume in pod["volumes"]}
    assert {
        "jobs-service-tls": [{"key": "ca.crt", "path": "ca.crt"}],
        "hourglass-operator": None,
    } == secrets
    variables = {one["name"] for one in pod["containers"][0]["env"]}
    assert {"JOBSCTL_TLS_CA", "JOBSCTL_TOKEN_FILE"} <= variables


def test_a_verification_runs_each_day_and_is_not_repeated_for_what_it_found() -> None:
    cron = of_kind(rendered(EXAMPLE), "CronJob")["verify"]["spec"]
    minute, hour, *days = cron["schedule"].split()
    assert (True, True, ["*", "*", "*"]) == (minute.isdigit(), hour.isdigit(), days)
    job = cron["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    (container,) = job["template"]["spec"]["containers"]
    assert ("FailJob", container["name"]) == (rule["action"], rule["onExitCodes"]["containerName"])
    assert [ExitCode.REFUSED, ExitCode.USAGE] == rule["onExitCodes"]["values"]


def test_a_verification_gets_through_the_policies() -> None:
    policies = of_kind(rendered(EXAMPLE), "NetworkPolicy")
    pod = of_kind(rendered(EXAMPLE), "CronJob")["verify"]["spec"]["jobTemplate"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (way_out,) = policies["verify"]["spec"]["egress"]
    (way_in,) = policies["jobs-service"]["spec"]["ingress"]
    assert policies["verify"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "jobs-service"}}}] == way_out["to"]
    assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "verify"}}} in way_in["from"]


def test_no_manifest_holds_a_secret() -> None:
    assert {} == of_kind(rendered(EXAMPLE), "Secret")


def test_the_metric_that_workers_are_scaled_by_is_the_one_that_is_made_for_it() -> None:
    adapter = yaml.safe_load(
        (KUBERNETES / "components" / "autoscaling" / "prometheus-adapter.yaml").read_text()
    )
    (rule,) = adapter["rules"]["external"]
    scaler = of_kind(rendered(EXAMPLE), "HorizontalPodAutoscaler")["worker"]["spec"]
    assert [rule["name"]["as"]] == [one["external"]["metric"]["name"] for one in scaler["metrics"]]
    recorded = (DEPLOY / "prometheus" / "recording_rules.yml").read_text()
    series = set(re.findall(r"hourglass_\w+", rule["metricsQuery"]))
    assert {rule["seriesQuery"], "hourglass_lane_closed"} == series
    assert [] == [name for name in series if f"({name})" not in recorded]
