/**
 * Settings in the page's address, behind the #: browsers send that part to no server. Nothing that
 * is secret is ever put there from here.
 */

const NAMES = ["voice", "persona", "captions"];

/** @returns {{voice?: string, persona?: string, captions?: string}} what the address asks for */
export function settingsOfLink(hash = location.hash) {
  const given = new URLSearchParams(hash.slice(1));
  return Object.fromEntries(NAMES.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

/** @param {{voice?: string, persona?: string, captions?: string}} settings @returns {string} */
export function linkOfSettings(settings) {
  const link = new URL(location.pathname, location.href);
  const chosen = NAMES.filter((name) => settings[name]).map((name) => [name, settings[name]]);
  // %20 rather than "+": some messengers break a link at a plus.
  link.hash = new URLSearchParams(chosen).toString().replaceAll("+", "%20");
  return link.href;
}
