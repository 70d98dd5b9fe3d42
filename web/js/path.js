/** Which way the sound goes, in words, from the browser's own statistics. */

/** @param {RTCStatsReport | null} report @returns {string | null} */
export function describePath(report) {
  if (!report) return null;
  const all = [...report.values()];
  const transport = all.find((stat) => stat.type === "transport" && stat.selectedCandidatePairId);
  // Firefox has no transport statistics and marks the pair itself.
  const pair = transport
    ? report.get(transport.selectedCandidatePairId)
    : all.find((stat) => stat.type === "candidate-pair" && stat.selected);
  const local = pair && report.get(pair.localCandidateId);
  if (!local) return null;
  const remote = report.get(pair.remoteCandidateId);
  if (local.candidateType === "relay") {
    return `relayed over ${(local.relayProtocol ?? local.protocol).toUpperCase()}`;
  }
  if (remote?.candidateType === "relay") return "relayed by the server";
  return `direct over ${local.protocol.toUpperCase()}`;
}
