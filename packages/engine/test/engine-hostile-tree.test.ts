import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openSession } from '../src/open-session.ts'
import { EngineLab, type HostOptions } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

function rootOf(name: string): string {
  const root = join(lab.sessionsRoot(name), '..')
  mkdirSync(root, { recursive: true })
  return root
}

describe('a tree in which somebody put something else in the engine’s places', () => {
  async function stoppedSession(): Promise<{ id: string; dir: string }> {
    const session = await openSession({ root: rootOf('local') })
    await session.close()
    return { id: session.id, dir: session.dir }
  }

  it.each(['journal/events.jsonl', 'journal/header.json', 'metadata/config-snapshot.yaml'])(
    'is refused with a link at %s, and what that points to stays as it is',
    async (path) => {
      const { id, dir } = await stoppedSession()
      const victim = join(rootOf('elsewhere'), 'victim')
      writeFileSync(victim, 'precious')
      rmSync(join(dir, path), { force: true })
      symlinkSync(victim, join(dir, path))
      await expect(openSession({ id, root: rootOf('local') })).rejects.toMatchObject({ name: 'NexusError' })
      expect(readFileSync(victim, 'utf8')).toBe('precious')
    },
  )

  it('is refused with a directory of the engine that is a link', async () => {
    const { id, dir } = await stoppedSession()
    const elsewhere = join(rootOf('elsewhere'), 'journal')
    mkdirSync(elsewhere)
    renameSync(join(dir, 'journal'), join(dir, 'files/journal'))
    symlinkSync(elsewhere, join(dir, 'journal'))
    await expect(openSession({ id, root: rootOf('local') })).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it.each(['journal/events.jsonl', 'metadata/config-snapshot.yaml', 'context/conversation.jsonl'])(
    'does not wait for a FIFO at %s',
    async (path) => {
      const { id, dir } = await stoppedSession()
      rmSync(join(dir, path), { force: true })
      execFileSync('mkfifo', [join(dir, path)])
      const opened = openSession({ id, root: rootOf('local') })
      // Opened or refused, but at once.
      await opened.then((session) => session.close()).catch((error: unknown) => assert(isNexusError(error)))
    },
  )
})

it('writes no blob and no database through a link that appeared while it ran', async () => {
  const session = await openSession({ root: rootOf('local') })
  const elsewhere = join(rootOf('elsewhere'), 'target')
  mkdirSync(elsewhere)
  symlinkSync(elsewhere, join(session.dir, 'blobs'))
  symlinkSync(elsewhere, join(session.dir, 'plugins/late'))
  await expect(session.blobs.put(Buffer.from('x'))).rejects.toMatchObject({ code: 'PRECONDITION' })
  expect(() => session.storage('late')).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
  expect(readdirSync(elsewhere)).toEqual([])
  await session.abandon()
})

it.each<[string, (path: string) => void]>([
  ['a directory', (path) => mkdirSync(path)],
  ['a link out', (path) => symlinkSync('/etc/hostname', path)],
  ['a link to itself', (path) => symlinkSync(path, path)],
  ['a FIFO', (path) => void execFileSync('mkfifo', [path])],
])('commits turn after turn when an appended file became %s', async (_what, replace) => {
  const engine = await lab.booted('a')
  await engine.submitInput('one')
  await engine.session.appendFile('files/log', 'line\n')
  await engine.session.appendFile('files/other', 'line\n')
  rmSync(join(engine.session.dir, 'files/log'))
  replace(join(engine.session.dir, 'files/log'))
  const generations: (number | undefined)[] = []
  for (const input of ['two', 'three']) {
    await engine.submitInput(input)
    generations.push(engine.status().durability?.generation)
  }
  expect(generations).toEqual([2, 3])
})

describe('what is asked of a session', () => {
  it('may not replace or remove the files of the running journal', async () => {
    const session = await openSession({ root: rootOf('local') })
    const { workspace } = session
    for (const path of ['journal/events.jsonl', 'journal/header.json', 'journal/events-001.jsonl.zst']) {
      await expect(workspace.writeFile(path, '')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      await expect(workspace.appendFile(path, '')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      await expect(workspace.deleteFile(path)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    expect((await workspace.readFile('journal/header.json')).length).toBeGreaterThan(0)
    await session.close()
  })

  it.each(['close', 'abandon'] as const)('writes nothing more after %s', async (end) => {
    const session = await openSession({ root: rootOf('local') })
    const { blobs, workspace, dir } = session
    const { sha256 } = await blobs.put(Buffer.from('kept'))
    await session[end]()
    await expect(workspace.writeFile('files/late', 'x')).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(workspace.appendFile('files/late', 'x')).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(blobs.put(Buffer.from('late'))).rejects.toMatchObject({ code: 'CLOSED' })
    expect(existsSync(join(dir, 'files/late'))).toBe(false)
    expect((await blobs.get(sha256)).data.toString()).toBe('kept')
  })

  it('leaves nothing when it could not be begun, so that a corrected configuration works', async () => {
    const plugin = { id: 'test.fussy', name: 'Fussy', version: '1.0.0', init: () => undefined }
    const wrong = await lab.engine('a', {
      recallSessionId: 's1',
      plugins: [plugin],
      config: { plugins: { active: ['test.fusy'] } },
    })
    await expect(wrong.boot()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(readdirSync(lab.sessionsRoot('a')).filter((name) => !name.startsWith('.'))).toEqual([])
    const right = await lab.engine('a', {
      recallSessionId: 's1',
      plugins: [plugin],
      config: { plugins: { active: ['test.fussy'] } },
    })
    await right.boot()
  })

  it('says so when a plugin fails under the configuration that the session was begun with', async () => {
    const plugin = {
      id: 'test.picky',
      name: 'Picky',
      version: '1.0.0',
      init: ({ config }: { config: unknown }) => {
        if (JSON.stringify(config).includes('bad')) throw new Error('a bad url')
      },
    }
    const block = (url: string): HostOptions => ({ plugins: [plugin], config: { plugins: { 'test.picky': { url } } } })
    const first = await lab.booted('a', block('good'))
    await first.stop()
    const stored = join(lab.sessionDir('a', first.sessionId), 'metadata/config-snapshot.yaml')
    writeFileSync(stored, readFileSync(stored, 'utf8').replace('good', 'bad'))
    const second = await lab.engine('a', { recallSessionId: first.sessionId, ...block('good') })
    await expect(second.boot()).rejects.toThrow(/bad url[^]*useConfigSnapshot: false/)
  })

  it('may not be misspelled', async () => {
    const options = { root: rootOf('local'), stor: {} }
    await expect(openSession(options)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', key: 'stor' })
    const empty = { root: rootOf('local'), store: {} }
    await expect(openSession(empty)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', key: 'store' })
  })

  it('fails with a code when its root can not be made', async () => {
    const file = join(rootOf('local'), 'file')
    writeFileSync(file, '')
    await expect(openSession({ root: join(file, 'root') })).rejects.toMatchObject({ name: 'NexusError' })
  })
})

it('is silent about an owner that this process itself has dropped', async () => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  await first.abandon()
  const second = await lab.engine('b', { recallSessionId: first.sessionId })
  const conflicts: unknown[] = []
  second.bus.subscribe('session.owner.conflict', (event) => void conflicts.push(event))
  await second.boot()
  expect(conflicts).toEqual([])
})
