// One of several processes on a bucket. Does what its first argument says, when the parent writes a line; prints JSON.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError, objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openFsBackend } from '../src/driver.ts'

const [role = '', bucket = '', name = '', rounds = '0', stopFile = ''] = process.argv.slice(2)
// Without fsync, which only makes the race slower.
const config = objectStoreConfig({ backend: 'fs', bucket, options: { fsync: false } })
const backend = await openFsBackend(config, { logger: silentLogger })
const dir = mkdtempSync(join(tmpdir(), 'nexus-fs-racer-'))
const path = join(dir, 'local')

const stopped = (): boolean => existsSync(stopFile)

/** Creates the same numbers as everyone else, and says which it won. */
async function create(): Promise<number[]> {
  const won: number[] = []
  for (let round = 0; round < Number(rounds); round++) {
    writeFileSync(path, name)
    if (await backend.putIfAbsent(`commits/${round}`, path)) won.push(round)
  }
  return won
}

/** Creates a key below which, and puts below a key which, others store at the same time. */
async function createAside(): Promise<{ won: number[]; unknown: number[] }> {
  const won: number[] = []
  const unknown: number[] = []
  for (let round = 0; round < Number(rounds); round++) {
    writeFileSync(path, name)
    await backend.put(`aside/${round}/below-${name}`, path)
    try {
      if (await backend.putIfAbsent(`aside/${round}`, path)) won.push(round)
    } catch (error) {
      if (!isNexusError(error, 'OUTCOME_UNKNOWN')) throw error
      unknown.push(round)
    }
  }
  return { won, unknown }
}

/** Replaces one object over and over, and stores below it, until told to stop. */
async function replace(): Promise<number> {
  let count = 0
  while (!stopped()) {
    const letter = name.repeat(50_000 + Math.floor(Math.random() * 100_000))
    writeFileSync(path, letter)
    await backend.put('shared/object', path)
    await backend.put(`shared/object/${name}${count % 5}`, path)
    count++
  }
  return count
}

/** Reads and lists until told to stop. Whatever it finds must be whole, and what nobody touches must be there. */
async function look(): Promise<number> {
  let count = 0
  for (; !stopped(); count++) {
    const keys = (await backend.list('shared')).map(({ key }) => key)
    for (const key of ['shared/object', 'shared/steady']) {
      if (!keys.includes(key)) throw new Error(`${key} is missing from a listing`)
    }
    if (new Set(keys).size !== keys.length) throw new Error('a key was listed twice')
    await backend.get('shared/object', path)
    const content = readFileSync(path, 'utf8')
    if (content !== content.charAt(0).repeat(content.length) || content.length < 50_000)
      throw new Error('a mixture was read')
  }
  return count
}

process.stdout.write('ready\n')
await new Promise((resolve) => process.stdin.once('data', resolve))
const roles: Record<string, () => Promise<unknown>> = { create, createAside, replace, look }
const result = await roles[role]?.()
process.stdout.write(`${JSON.stringify(result)}\n`)
await backend.close()
rmSync(dir, { recursive: true })
process.exit()
