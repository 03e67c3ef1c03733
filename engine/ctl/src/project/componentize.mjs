const [source, world, output] = process.argv.slice(2);
const { writeFile } = await import("node:fs/promises");
const { componentize } = await import("@bytecodealliance/componentize-js");
const { component } = await componentize({
  sourcePath: source,
  witPath: "wit",
  worldName: world,
  disableFeatures: ["stdio", "random", "clocks", "http", "fetch-event"],
});
await writeFile(output, component);
