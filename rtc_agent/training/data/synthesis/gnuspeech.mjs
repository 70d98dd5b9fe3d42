// Speaks a list of requests with Gnuspeech compiled to WebAssembly (npm @echogarden/gnuspeech-wasm).
// Usage: node gnuspeech.mjs PACKAGE REQUESTS.json OUTFOLDER; request i becomes OUTFOLDER/i.wav.

import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [packageFolder, requestsFile, out] = process.argv.slice(2)
const entry = join(packageFolder, 'dist', 'exports', 'GnuSpeech.js')
const { synthesize } = await import(pathToFileURL(entry).href)

const requests = JSON.parse(readFileSync(requestsFile, 'utf8'))
for (const [index, { text, voice, tempo }] of requests.entries()) {
    const { audioData } = await synthesize(text, { voice, tempo })
    writeFileSync(join(out, `${index}.wav`), audioData)
}
