"""Keeps pods off the networks that its config lists, except those of some namespaces:

    { "networks": ["storage"], "except": ["backup"] }

The policy itself, which an ordinary Python can test.
"""


def problems(config):
    """What is wrong with a config, as (JSON pointer, message)."""
    found = [(f"/{key}", "is unknown") for key in config if key not in ("networks", "except")]
    for key in ("networks", "except"):
        names = config.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            found.append((f"/{key}", "is not a list of names"))
    if not config.get("networks"):
        found.append(("/networks", "lists no network, so it denies none"))
    return found


def denial(config, network, context):
    """Why the pod must not join the network; None if it may."""
    if network not in config["networks"]:
        return None
    namespace = context.get("pod", {}).get("namespace")
    if namespace is None:
        return f"network {network} is not for pods without a namespace"
    if namespace in config.get("except", []):
        return None
    return f"network {network} is not for pods of namespace {namespace}"
