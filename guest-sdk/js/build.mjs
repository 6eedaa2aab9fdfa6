// Makes a component of an operator: `node build.mjs highest-bid.js [highest-bid.wasm]`.
//
// Needs componentize-qjs (`npm ci` in this directory, or HOWDAH_NODE_MODULES says where it is), and
// the contract: the directory `wit` beside this file or in the repository, or HOWDAH_WIT.

import { existsSync, readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe } from "./howdah.js";

const sdk = dirname(fileURLToPath(import.meta.url));

/** The module that componentize-qjs starts from: it ties the imports to the operator. */
function entry(version, sdkPath, operatorPath) {
  const interfaces = ["clock", "logging", "metrics", "state", "timers"];
  return [
    ...interfaces.map((name) => `import ${name} from "howdah:operator/${name}@${version}";`),
    `import { component } from ${JSON.stringify(sdkPath)};`,
    `import made from ${JSON.stringify(operatorPath)};`,
    `const exported = component(made, { ${interfaces.join(", ")} });`,
    ...["operator", "timerHandler", "watermarkHandler", "checkpointHandler"].map(
      (name) => `export const ${name} = exported.${name};`,
    ),
  ].join("\n");
}

/** The directory of the contract. */
function findWit() {
  const places = process.env.HOWDAH_WIT ? [process.env.HOWDAH_WIT] : [join(sdk, "wit"), join(sdk, "../../wit")];
  const found = places.find((place) => existsSync(join(place, "operator.wit")));
  if (!found) throw new Error(`no contract (operator.wit) in ${places.join(" or ")}; HOWDAH_WIT says where it is`);
  return found;
}

/** componentize-qjs, from where it is installed. */
function findTool() {
  const base = process.env.HOWDAH_NODE_MODULES ? resolve(process.env.HOWDAH_NODE_MODULES, "..") : sdk;
  try {
    return createRequire(join(base, "package.json"))("componentize-qjs");
  } catch {
    throw new Error(`componentize-qjs is not installed in ${base}: run \`npm ci\` there`);
  }
}

/** The deepest directory that has both. */
function commonDirectory(a, b) {
  const [left, right] = [a.split(sep), b.split(sep)];
  const length = left.findIndex((part, i) => part !== right[i]);
  return left.slice(0, length < 0 ? left.length : length).join(sep) || sep;
}

const modulePath = (from, to) => {
  const path = relative(from, to).split(sep).join("/");
  return path.startsWith(".") ? path : `./${path}`;
};

async function build(source, target) {
  const directory = dirname(source);
  const { default: operator } = await import(pathToFileURL(source));
  // What the operator declares wrong shows here, with a better stack than later.
  describe(operator, "{}");
  const wit = findWit();
  const version = /package howdah:operator@([\d.]+)/.exec(readFileSync(join(wit, "types.wit"), "utf8"))[1];
  const jsSource = entry(version, modulePath(directory, join(sdk, "howdah.js")), modulePath(directory, source));
  // Imports are resolved from where the entry lies, so it lies beside the operator for a moment.
  const jsPath = join(directory, `.howdah-entry-${process.pid}.js`);
  await writeFile(jsPath, jsSource);
  try {
    const { component } = await findTool().componentize({
      witPath: wit,
      world: "timed-operator",
      jsSource,
      jsPath,
      moduleRoot: commonDirectory(sdk, directory),
      stubWasi: true,
      sync: true,
    });
    await writeFile(target, component);
    console.log(`${target}: ${(component.length / 1e6).toFixed(1)} MB`);
  } finally {
    await rm(jsPath);
  }
}

const [source, target = source?.replace(/\.[jt]s$/, ".wasm")] = process.argv.slice(2);
if (!source) {
  console.error("usage: node build.mjs OPERATOR.js [COMPONENT.wasm]");
  process.exitCode = 2;
} else {
  await build(resolve(source), target).catch((error) => {
    console.error(`error: ${error.message}`);
    process.exitCode = 1;
  });
}
