import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { defineHttpSuite } from '../network/http-suite.ts'
import { repositoryRoot } from './stranger.ts'

await defineHttpSuite({ describe, it })

describe('the page about a backend over a network', () => {
  it('shows the driver and its suite as they are tested', () => {
    const page = readFileSync(join(repositoryRoot, 'docs/guides/writing-a-network-backend.md'), 'utf8')
    const shown = [...page.matchAll(/^```ts (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => [name, text])
    const dir = join(repositoryRoot, 'modules/objectstore-seamcheck/network')
    const tested = readdirSync(dir).filter((name) => name.startsWith('http-'))
    const files = tested.map((name) => [name, readFileSync(join(dir, name), 'utf8')])
    expect(Object.fromEntries(shown), 'copy what changed in network/ into the page').toEqual(Object.fromEntries(files))
  })
})
