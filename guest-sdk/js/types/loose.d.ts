// What JavaScript does without: it declares no fields.

export {};

declare module "../howdah.js" {
  interface Operator {
    [name: string]: any;
  }
}
