import { appendFileSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSessionTree } from '../../src/session/create-tree.ts'
import { openWorkspace, type SessionWorkspace } from '../../src/session/workspace.ts'
import { SeenEvents, type SeenEvent } from './open-test-workspace.ts'

// The workspace against a map of strings, and against somebody who only hears the events: he copies what each one says
// has changed and nothing else, and must end up with the same files.

interface Action {
  do: 'write' | 'append' | 'delete' | 'read' | 'exists' | 'list'
  path: string
  text: string
  /** What another process appends in the middle of an append. */
  foreign: string
}

/** What the session should hold: files by path, and the directories that were ever needed. */
class Model {
  readonly files = new Map<string, string>()
  readonly directories = new Set(['', 'context', 'files', 'journal', 'metadata', 'plugins'])

  /** Applies an action to the model; returns what the call should answer, or an error code. */
  apply(action: Action): { value?: unknown; code?: string } {
    const path = action.path === 'files/link' ? 'files/a' : action.path
    if (action.do === 'list') return { value: this.#list(path) }
    if (action.do === 'exists') return { value: this.files.has(path) }
    const text = this.files.get(path)
    if (action.do === 'read') {
      if (text !== undefined) return { value: text }
      return { code: this.#missing(path) }
    }
    if (action.do === 'delete') {
      if (text === undefined) return { code: this.#missing(path) }
      this.files.delete(path)
      return {}
    }
    // What is missing above is made even where the file itself can't be.
    for (const above of parents(path)) {
      if (this.files.has(above)) return { code: 'LOCAL_IO' }
      this.directories.add(above)
    }
    if (this.directories.has(path)) return { code: 'INVALID_ARGUMENT' }
    this.files.set(path, action.do === 'write' ? action.text : (text ?? '') + action.foreign + action.text)
    return {}
  }

  #missing(path: string): string {
    if (parents(path).some((above) => this.files.has(above))) return 'LOCAL_IO'
    return this.directories.has(path) ? 'INVALID_ARGUMENT' : 'NOT_FOUND'
  }

  #list(dir: string): string[] {
    const below = [...this.files.keys()]
      .filter((path) => path.startsWith(`${dir}/`))
      .map((path) => path.slice(dir.length + 1))
    const names = below.filter((path) => !path.includes('/'))
    if (dir === 'files' && this.files.has('files/a')) names.push('link')
    return names.toSorted()
  }
}

function parents(path: string): string[] {
  const segments = path.split('/').slice(0, -1)
  return segments.map((_, index) => segments.slice(0, index + 1).join('/'))
}

interface Run {
  workspace: SessionWorkspace
  dir: string
  /** Files as an attentive listener has them. */
  heard: Map<string, string>
  foreign: Map<string, string>
}

async function withWorkspace(use: (run: Run) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(realpathSync(tmpdir()), 'nexus-model-'))
  try {
    const dir = await createSessionTree(root, 'm', { fsync: false })
    symlinkSync('a', join(dir, 'files/link'))
    const heard = new Map<string, string>()
    const foreign = new Map<string, string>()
    const seen = new SeenEvents()
    seen.handler = (event) => hear(event, dir, heard)
    const failpoint = (name: string): void => {
      if (name !== 'append:measured') return
      for (const [path, text] of foreign) appendFileSync(join(dir, path), text, 'latin1')
      foreign.clear()
    }
    const workspace = await openWorkspace({ id: 'm', dir, bus: seen, fsync: 'none', failpoint })
    await use({ workspace, dir, heard, foreign })
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** Takes from the file what the event says has changed. */
function hear(event: SeenEvent, dir: string, heard: Map<string, string>): void {
  const { type, path, size = 0, offset = 0, bytes_added = 0 } = event
  if (type === 'deleted') {
    expect(heard.delete(path)).toBe(true)
    return
  }
  expect(heard.has(path)).toBe(type === 'updated')
  expect(offset + bytes_added).toBe(size)
  const now = readFileSync(join(dir, path), 'latin1')
  expect(now.length).toBe(size)
  heard.set(path, (heard.get(path) ?? '').slice(0, offset) + now.slice(offset, offset + bytes_added))
}

const calls: Record<Action['do'], (workspace: SessionWorkspace, path: string, data: Buffer) => Promise<unknown>> = {
  write: (workspace, path, data) => workspace.writeFile(path, data),
  append: (workspace, path, data) => workspace.appendFile(path, data),
  delete: (workspace, path) => workspace.deleteFile(path),
  read: async (workspace, path) => (await workspace.readFile(path)).toString('latin1'),
  exists: (workspace, path) => workspace.fileExists(path),
  list: (workspace, path) => workspace.listFiles(path),
}

async function perform({ workspace, foreign }: Run, action: Action): Promise<{ value?: unknown; code?: string }> {
  if (action.do === 'append' && action.foreign !== '') foreign.set(action.path, action.foreign)
  try {
    const value = await calls[action.do](workspace, action.path, Buffer.from(action.text, 'latin1'))
    return value === undefined ? {} : { value }
  } catch (error) {
    if (!isNexusError(error)) throw error
    return { code: error.code }
  } finally {
    foreign.clear()
  }
}

const text = fc.string({
  unit: fc.integer({ min: 0, max: 255 }).map((byte) => String.fromCharCode(byte)),
  maxLength: 12,
})

function actions(paths: string[], options: { foreign: boolean }): fc.Arbitrary<Action> {
  const path = fc.constantFrom(...paths)
  const nothing = fc.constant('')
  const foreign = options.foreign
    ? fc.oneof({ weight: 4, arbitrary: nothing }, { weight: 1, arbitrary: text })
    : nothing
  const changes = fc.constantFrom<Action['do']>('write', 'append')
  const others = fc.constantFrom<Action['do']>('delete', 'read', 'exists')
  const directory = fc.constantFrom('files', 'context', 'files/d')
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: changes, path, text, foreign }) },
    { weight: 2, arbitrary: fc.record({ do: others, path, text: nothing, foreign: nothing }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('list' as const), path: directory, text: nothing, foreign: nothing }),
    },
  )
}

describe('the workspace and a map', () => {
  it('agree on every answer, one call after the other, and so does who only hears the events', async () => {
    const paths = ['files/a', 'files/link', 'files/d', 'files/d/x', 'files/d/y/z', 'context/c']
    await fc.assert(
      fc.asyncProperty(fc.array(actions(paths, { foreign: true }), { maxLength: 30 }), (sequence) =>
        withWorkspace(async (run) => {
          const model = new Model()
          for (const action of sequence) {
            // Where the link leads decides about reading and writing; deleting means the link.
            if (action.do === 'delete' && action.path === 'files/link') continue
            const expected = model.apply(action)
            expect({ action, ...(await perform(run, action)) }).toEqual({ action, ...expected })
          }
          expect(run.heard).toEqual(model.files)
        }),
      ),
      { numRuns: 150 },
    )
  })

  it('agree in the end when nothing is waited for', async () => {
    const paths = ['files/a', 'files/link', 'files/b', 'context/deep/c']
    await fc.assert(
      fc.asyncProperty(fc.array(actions(paths, { foreign: false }), { maxLength: 40 }), (sequence) =>
        withWorkspace(async (run) => {
          const model = new Model()
          const changes = sequence.filter(({ do: what }) => what === 'write' || what === 'append')
          for (const action of changes) model.apply(action)
          await Promise.all(changes.map((action) => perform(run, action)))
          expect(run.heard).toEqual(model.files)
          for (const [path, content] of model.files) expect(readFileSync(join(run.dir, path), 'latin1')).toBe(content)
        }),
      ),
      { numRuns: 80 },
    )
  })
})
