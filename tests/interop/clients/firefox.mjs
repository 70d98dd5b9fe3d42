// Drives the call page in Firefox over WebDriver BiDi: a call, what is heard, muting, its end.
import puppeteer from "puppeteer-core";

const [executablePath, url] = process.argv.slice(2);
const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath,
  headless: true,
  extraPrefsFirefox: {
    "media.navigator.streams.fake": true,
    "media.navigator.permission.disabled": true,
    "media.navigator.audio.fake_frequency": 620,
    "media.peerconnection.ice.obfuscate_host_addresses": false,
    "media.peerconnection.ice.loopback": true,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
  },
});
const page = await browser.newPage();
const faults = [];
page.on("pageerror", (error) => faults.push(String(error)));
page.on("console", (line) => {
  if (/Content-Security-Policy|Content Security Policy/.test(line.text())) faults.push(line.text());
});

const state = (wanted) =>
  page.waitForFunction((name) => document.body.dataset.state === name, { timeout: 20_000 }, wanted);
const text = (id) => page.evaluate((name) => document.getElementById(name).textContent, id);

try {
  await page.evaluateOnNewDocument(() => {
    const Real = window.RTCPeerConnection;
    window.peers = [];
    window.RTCPeerConnection = class extends Real {
      constructor(...options) {
        super(...options);
        window.peers.push(this);
      }
    };
  });
  await page.goto(url);
  await state("ready");
  await page.click("#start");
  await state("live");
  await page.waitForFunction(
    () => /ms$/.test(document.querySelector("#quality-figures dd span").textContent),
    { timeout: 20_000 },
  );
  const heard = await page.evaluate(async () => {
    const report = await window.peers[0].getStats();
    const inbound = [...report.values()].find(({ type }) => type === "inbound-rtp");
    return { packets: inbound.packetsReceived, energy: inbound.totalAudioEnergy ?? null };
  });
  const path = await text("fact-path");
  const figures = await page.evaluate(() =>
    [...document.querySelectorAll("#quality-figures > div")].map((row) => [
      row.querySelector("dt").textContent,
      row.querySelector("dd span").textContent,
    ]),
  );
  await page.click("#mute");
  const muted = await text("state");
  await page.click("#hangup");
  await state("ended");
  const ended = await text("state");
  console.log(JSON.stringify({ heard, path, figures, muted, ended, faults }));
} finally {
  await browser.close();
}
