/** The page's global `interop`: each client, wrapped so that a test can drive it by name. */

import * as sound from "./sound.js";
import * as moshi from "./moshi.js";
import * as pipecat from "./pipecat.js";
import * as realtime from "./realtime.js";
import * as whip from "./whip.js";

window.interop = { moshi, pipecat, realtime, sound, whip };
