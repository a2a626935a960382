"""What the manifests in deploy/kubernetes may say: the fields of the API's objects that they use, with their types, and which the API
requires ("!"). An unknown field is a mistake here: kubectl would refuse it, too. Written down from the API's reference."""
NAME = str
ANY = object


def mapping(value):
    return {"*": value}


SECURITY = {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "fsGroup": int, "allowPrivilegeEscalation": bool,
            "readOnlyRootFilesystem": bool, "capabilities": {"drop": [str], "add": [str]}, "seccompProfile": {"type!": str}}
PROBE = {"httpGet": {"path": str, "port!": (int, str), "scheme": str}, "periodSeconds": int, "failureThreshold": int,
         "initialDelaySeconds": int, "timeoutSeconds": int}
CONTAINER = {"name!": NAME, "image": str, "command": [str], "args": [str], "workingDir": str,
             "env": [{"name!": NAME, "value": str, "valueFrom": {"fieldRef": {"fieldPath!": str},
                                                                 "secretKeyRef": {"name": NAME, "key!": str},
                                                                 "configMapKeyRef": {"name": NAME, "key!": str}}}],
             "ports": [{"name": NAME, "containerPort!": int, "protocol": str}],
             "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
             "resources": {"requests": mapping((str, int)), "limits": mapping((str, int))}, "securityContext": SECURITY,
             "volumeMounts": [{"name!": NAME, "mountPath!": str, "readOnly": bool, "subPath": str}]}
VOLUME = {"name!": NAME, "configMap": {"name": NAME, "defaultMode": int}, "secret": {"secretName": NAME, "defaultMode": int},
          "emptyDir": {"medium": str, "sizeLimit": str}, "persistentVolumeClaim": {"claimName!": NAME, "readOnly": bool}}
POD = {"containers!": [CONTAINER], "initContainers": [CONTAINER], "volumes": [VOLUME], "restartPolicy": str, "subdomain": str,
       "terminationGracePeriodSeconds": int, "securityContext": SECURITY}
META = {"name": NAME, "namespace": NAME, "labels": mapping(str), "annotations": mapping(str)}
TEMPLATE = {"metadata": META, "spec!": POD}
JOB = {"template!": TEMPLATE, "completionMode": str, "completions": int, "parallelism": int, "backoffLimit": int,
       "podFailurePolicy": {"rules!": [{"action!": str, "onPodConditions": [{"type!": str, "status": str}],
                                        "onExitCodes": {"containerName": NAME, "operator!": str, "values!": [int]}}]}}
OBJECT = {"apiVersion!": str, "kind!": str, "metadata": {**META, "name!": NAME}}
REPLICAS = {"replicas": int, "restartPolicy": str, "template!": TEMPLATE}
KINDS = {
    ("batch/v1", "Job"): {"spec!": JOB},
    ("v1", "Service"): {"spec!": {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": mapping(str),
                                  "ports": [{"name": NAME, "port!": int, "targetPort": (int, str), "protocol": str}]}},
    ("v1", "PersistentVolumeClaim"): {"spec!": {"accessModes": [str], "storageClassName": str,
                                                "resources": {"requests": mapping(str)}}},
    ("v1", "ConfigMap"): {"data": mapping(str)},
    ("kubeflow.org/v1", "TFJob"): {"spec!": {"runPolicy": {"cleanPodPolicy": str}, "tfReplicaSpecs!": mapping(REPLICAS)}},
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): {
        "spec!": {"mlPolicy": {"numNodes": int},
                  "template!": {"metadata": META, "spec!": {"replicatedJobs": [
                      {"name!": NAME, "replicas": int, "template!": {"metadata": META, "spec!": JOB}}]}}}},
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): {
        "spec!": {"runtimeRef!": {"apiGroup": str, "kind": str, "name!": NAME},
                  "trainer": {"image": str, "command": [str], "args": [str], "numNodes": int}}},
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): {
        "resources": [str], "configMapGenerator": [{"name!": NAME, "files": [str]}],
        "images": [{"name!": NAME, "newName": str, "newTag": str}]},
}


def check(value, schema, where):
    """Yields a line for each thing that is wrong."""
    if isinstance(schema, dict) and isinstance(value, dict):
        known = {key.rstrip("!"): inner for key, inner in schema.items()}
        for key, inner in value.items():
            if key in known or "*" in known:
                yield from check(inner, known.get(key, known.get("*")), f"{where}.{key}")
            else:
                yield f"{where}: unknown field {key}"
        yield from (f"{where}: {key[:-1]} is missing" for key in schema if key.endswith("!") and key[:-1] not in value)
    elif isinstance(schema, list) and isinstance(value, list):
        for i, inner in enumerate(value):
            yield from check(inner, schema[0], f"{where}[{i}]")
    elif isinstance(schema, (dict, list)) or not isinstance(value, schema) or (isinstance(value, bool) and schema is int):
        yield f"{where}: {value!r} is of the wrong type"


def check_object(o, where):
    kind = (o.get("apiVersion"), o.get("kind"))
    if kind not in KINDS:
        yield f"{where}: unknown kind {kind}"
        return
    whole = {"apiVersion!": str, "kind!": str} if kind[1] == "Kustomization" else {**OBJECT, "metadata!": OBJECT["metadata"]}
    whole.pop("metadata", None)
    wrong = list(check(o, {**whole, **KINDS[kind]}, where))
    yield from wrong
    if wrong:
        return
    spec = o.get("spec") or {}
    pods = [spec.get("template", {}).get("spec")] if kind[1] == "Job" else []
    pods += [r.get("template", {}).get("spec") for r in spec.get("tfReplicaSpecs", {}).values()]
    pods += [j["template"]["spec"]["template"]["spec"] for j in spec.get("template", {}).get("spec", {}).get("replicatedJobs", [])]
    for pod in filter(None, pods):
        volumes = {v["name"] for v in pod.get("volumes", [])}
        for container in pod.get("containers", []) + pod.get("initContainers", []):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{where}: {container['name']} mounts {mount['name']}, which is no volume of the pod"
            ports = {p.get("name") for p in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port", 0)
                if isinstance(port, str) and port not in ports:
                    yield f"{where}: {container['name']} is probed at {port}, which is no port of it"
