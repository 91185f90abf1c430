import { html } from "../vendor/htm-preact.js";
export default function Page() { return html`<h1>nodes</h1>`; }
