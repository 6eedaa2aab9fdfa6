// Of Node the tests of the template need no more than this.

declare module "node:assert/strict";
declare module "node:test";
