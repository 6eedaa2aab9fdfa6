// What `build.mjs` says of modules that are wrong. It needs no toolchain to find out.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const sdk = fileURLToPath(new URL("..", import.meta.url));

/** What is said of a project with these files, the first of which is built. */
function refusal(files) {
  const directory = mkdtempSync(join(tmpdir(), "howdah-build-"));
  try {
    writeFileSync(join(directory, "package.json"), '{"type": "module"}');
    for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
    const [first] = Object.keys(files);
    const arguments_ = [join(sdk, "build.mjs"), first, "made.wasm"];
    const { status, stderr } = spawnSync(process.execPath, arguments_, { cwd: directory, encoding: "utf8" });
    assert.equal(status, 1, stderr);
    return stderr;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("a syntax error is told with file and line, also of a module that is imported", () => {
  const broken = "const a = 1;\nconst b = ;\n";
  const said = refusal({ "broken.js": broken });
  assert.match(said, /^error: broken\.js:2: SyntaxError: Unexpected token ';'\nconst b = ;\n/);
  assert.match(refusal({ "whole.js": 'import "./broken.js";\n', "broken.js": broken }), /^error: broken\.js:2: SyntaxError/);
});

test("what a module throws is told with its place", () => {
  assert.match(refusal({ "thrown.js": "\n\nmissing();\n" }), /^error: missing is not defined \(thrown\.js:3:1\)\n$/);
  const declared = `import { valueState } from ${JSON.stringify(join(sdk, "howdah.js"))};\n\nvalueState({ a: "int" });\n`;
  assert.match(refusal({ "declared.js": declared }), /^error: value state: `a` has no column type \(declared\.js:3:1\)\n$/);
});

test("a module without an operator is told what to write", () => {
  assert.match(refusal({ "empty.js": "export const a = 1;\n" }), /exports no operator: `export default class \.\.\.`/);
});
