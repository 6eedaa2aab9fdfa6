// Makes a component of an operator: `node build.mjs highest-bid.js [highest-bid.wasm]`.
//
// Needs componentize-qjs (`npm ci` in this directory, or HOWDAH_NODE_MODULES says where it is), and
// the contract: the directory `wit` beside this file or in the repository, or HOWDAH_WIT.

import { spawnSync } from "node:child_process";
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

/** The operator of a module. What is wrong with the module is told with file and line. */
async function load(source) {
  const url = pathToFileURL(source).href;
  try {
    const { default: operator } = await import(url);
    if (typeof operator !== "function") throw new Error(`${source} exports no operator: \`export default class ...\``);
    return operator;
  } catch (error) {
    throw new Error(error instanceof SyntaxError ? whereNoSyntax(url, error) : `${error.message}${placeOf(error)}`);
  }
}

/** Node says where it stopped to those alone that do not catch it. */
function whereNoSyntax(url, error) {
  const program = `import(${JSON.stringify(url)})`;
  const { stderr } = spawnSync(process.execPath, ["-e", program], { encoding: "utf8" });
  const [place, ...lines] = stderr.slice(0, Math.max(0, stderr.indexOf("\n\n"))).split("\n");
  if (!place.startsWith("file:")) return `${error.name}: ${error.message}`;
  return [`${pathOf(place)}: ${error.name}: ${error.message}`, ...lines].join("\n");
}

/** Where in the author's files it was thrown. */
function placeOf(error) {
  const frames = [...String(error.stack).matchAll(/file:\S+:\d+:\d+/g)].map(([frame]) => frame);
  const found = frames.find((frame) => !frame.startsWith(pathToFileURL(sdk).href));
  return found ? ` (${pathOf(found)})` : "";
}

/** A URL of a file with lines behind it, as seen from here. */
function pathOf(place) {
  const [, url, lines] = /^(.*?)((?::\d+)+)$/.exec(place);
  return relative(process.cwd(), fileURLToPath(url)) + lines;
}

/** A section `producers`: what language a component is in, and of which SDK. */
function producers(language, version) {
  const text = (value) => [value.length, ...Buffer.from(value)];
  const fields = [["language", language, ""], ["sdk", "howdah", version]];
  const data = [...text("producers"), fields.length];
  for (const [field, name, itsVersion] of fields) data.push(...text(field), 1, ...text(name), ...text(itsVersion));
  return Buffer.from([0, data.length, ...data]);
}

async function build(source, target) {
  const directory = dirname(source);
  const operator = await load(source);
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
    const { version } = JSON.parse(readFileSync(join(sdk, "package.json"), "utf8"));
    const marked = Buffer.concat([component, producers("JavaScript", version)]);
    await writeFile(target, marked);
    console.log(`${target}: ${(marked.length / 1e6).toFixed(1)} MB`);
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
