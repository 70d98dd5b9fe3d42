/** @param {string} id of an element that the page has @returns {any} */
export const element = (id) => document.getElementById(id);
