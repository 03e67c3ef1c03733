// Keeps pods off the networks that its config lists, except those of some namespaces:
//
//     { "networks": ["storage"], "except": ["backup"] }
//
// The policy itself, which an ordinary Node can test.

const KEYS = ["networks", "except"];

/** What is wrong with a config, as [{ path: JSON pointer, message }]. */
export function problems(config) {
  const found = Object.keys(config)
    .filter((key) => !KEYS.includes(key))
    .map((key) => ({ path: `/${key}`, message: "is unknown" }));
  for (const key of KEYS) {
    const names = config[key] ?? [];
    if (!Array.isArray(names) || !names.every((name) => typeof name === "string")) {
      found.push({ path: `/${key}`, message: "is not a list of names" });
    }
  }
  if (!config.networks?.length) {
    found.push({ path: "/networks", message: "lists no network, so it denies none" });
  }
  return found;
}

/** Why the pod must not join the network; undefined if it may. */
export function denial(config, network, context) {
  if (!config.networks.includes(network)) return undefined;
  const namespace = context.pod?.namespace;
  if (namespace === undefined) return `network ${network} is not for pods without a namespace`;
  if (config.except?.includes(namespace)) return undefined;
  return `network ${network} is not for pods of namespace ${namespace}`;
}
