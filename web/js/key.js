/**
 * The key of a server that wants one. It comes as `#key=…` at the end of the page's address: browsers
 * send no server what stands there. It is taken out of the address at once and kept in this page's
 * memory alone, so that neither the history nor a shared link has it.
 */

let key = "";

function take() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("key");
  if (given === null) return;
  key = given;
  fragment.delete("key");
  const rest = fragment.toString();
  history.replaceState(history.state, "", location.pathname + location.search + (rest && `#${rest}`));
}

take();
// Somebody who adds the key to the address of an open page changes its fragment alone.
addEventListener("hashchange", take);

/** Headers that bring the key, if there is one. */
export const keyHeaders = () => (key ? { Authorization: `Bearer ${key}` } : {});
