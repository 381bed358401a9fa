import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket
const children: ChildProcess[] = []

beforeEach(() => {
  test = createTestBucket()
})

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  await test.remove()
})

interface Racer {
  child: ChildProcess
  ready: Promise<unknown>
  start(): void
  /** What it printed when it was done; rejects when it failed. */
  result: Promise<unknown>
}

function startRacer(role: string, name: string, rounds: number, stopFile = ''): Racer {
  const script = fileURLToPath(new URL('racing-child.ts', import.meta.url))
  const args = [...process.execArgv, script, role, test.bucket, name, String(rounds), stopFile]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  children.push(child)
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const lines: string[] = []
  const output = createInterface({ input: child.stdout })
  output.on('line', (line) => lines.push(line))
  const ended = once(child, 'exit')
  const result = ended.then(([code, signal]: unknown[]) => {
    if (code === 0) return JSON.parse(lines[1] ?? 'null') as unknown
    if (signal === 'SIGKILL') return undefined
    throw new Error(`${role} ${name} failed: ${errors}`)
  })
  result.catch(() => undefined)
  return { child, ready: Promise.race([once(output, 'line'), ended]), start: () => child.stdin.write('go\n'), result }
}

async function race(racers: Racer[]): Promise<void> {
  await Promise.all(racers.map(({ ready }) => ready))
  for (const racer of racers) racer.start()
}

describe('processes on one bucket', () => {
  it('that create the same keys have exactly one winner each', async () => {
    const rounds = 40
    const racers = ['a', 'b', 'c', 'd'].map((name) => startRacer('create', name, rounds))
    await race(racers)
    const won = (await Promise.all(racers.map(({ result }) => result))) as number[][]
    expect(won.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: rounds }, (_, round) => round))
    for (const [index, name] of ['a', 'b', 'c', 'd'].entries()) {
      for (const round of won[index] ?? []) {
        expect(readFileSync(join(test.bucket, 'commits', String(round)), 'utf8')).toBe(name)
      }
    }
    expect(readdirSync(join(test.bucket, '\\tmp'))).toEqual([])
  })

  it('that create keys while others store below them never have two winners, and lose nothing', async () => {
    const rounds = 40
    const names = ['a', 'b', 'c', 'd']
    const racers = names.map((name) => startRacer('createAside', name, rounds))
    await race(racers)
    const outcomes = (await Promise.all(racers.map(({ result }) => result))) as { won: number[]; unknown: number[] }[]
    const backend = await test.open()
    const keys = new Set((await backend.list('aside')).map(({ key }) => key))
    for (let round = 0; round < rounds; round++) {
      const winners = names.filter((_, index) => outcomes[index]?.won.includes(round))
      const doubtful = names.filter((_, index) => outcomes[index]?.unknown.includes(round))
      expect(winners.length).toBeLessThanOrEqual(1)
      expect(winners.length + doubtful.length).toBeGreaterThan(0)
      const path = test.freshPath()
      await backend.get(`aside/${round}`, path)
      const stored = readFileSync(path, 'utf8')
      expect(winners.length === 1 ? winners : names).toContain(stored)
      for (const name of names) expect(keys.has(`aside/${round}/below-${name}`)).toBe(true)
    }
  })

  it('that replace, read and list one object never see a part of it, also when one is killed', async () => {
    const backend = await test.open()
    await backend.put('shared/steady', test.file('x'))
    await backend.put('shared/object', test.file('s'.repeat(60_000)))
    const stopFile = test.freshPath()
    const writers = ['a', 'b', 'c'].map((name) => startRacer('replace', name, 0, stopFile))
    const readers = ['x', 'y'].map((name) => startRacer('look', name, 0, stopFile))
    await race([...writers, ...readers])
    // Each killed writer is replaced, so that kills keep landing in the middle of puts.
    for (let kill = 0; kill < 5; kill++) {
      await sleep(60 + kill * 17)
      writers.shift()?.child.kill('SIGKILL')
      const next = startRacer('replace', 'defgh'.charAt(kill), 0, stopFile)
      await race([next])
      writers.push(next)
    }
    await sleep(50)
    writeFileSync(stopFile, '')
    const counts = (await Promise.all([...writers, ...readers].map(({ result }) => result))) as number[]
    expect(counts.every((count) => count > 0)).toBe(true)
    const path = test.freshPath()
    await backend.get('shared/object', path)
    const content = readFileSync(path, 'utf8')
    expect(content).toBe(content.charAt(0).repeat(content.length))
    // What the killed ones left is cleared away by a process that comes later.
    const later = await test.open({}, {})
    await later.list('')
    await expect.poll(() => readdirSync(join(test.bucket, '\\tmp'))).toEqual([])
  })
})
