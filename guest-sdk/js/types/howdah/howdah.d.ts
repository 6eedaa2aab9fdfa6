export * from "../../howdah.js";
