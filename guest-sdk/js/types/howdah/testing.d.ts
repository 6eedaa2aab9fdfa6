export * from "../../testing.js";
