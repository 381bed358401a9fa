import { appendFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from '../../../test/session/open-test-workspace.ts'
import { tempDir } from '@nexus/host/testing'
import { silentLogger } from '@nexus/host'

describe('announceWrite and announceAppend', () => {
  it('announce exactly what the helpers would', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const path = join(dir, 'files/raw')
    writeFileSync(path, 'abc')
    await workspace.announceWrite(path, false)
    await workspace.announceWrite(path, true)
    appendFileSync(path, 'de')
    await workspace.announceAppend(path, 2)
    expect(seen.events).toEqual([
      { type: 'created', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 },
      { type: 'updated', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 },
      { type: 'updated', path: 'files/raw', size: 5, offset: 3, bytes_added: 2 },
    ])
  })

  it('derive created from an append that nothing lies before', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const path = join(dir, 'files/raw')
    appendFileSync(path, 'abc')
    await workspace.announceAppend(path, 3)
    expect(seen.events).toEqual([{ type: 'created', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 }])
  })

  it.each([4, -1, 1.5, Number.NaN])('say rewritten for %d bytes appended to a file of 3', async (bytesAdded) => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const path = join(dir, 'files/raw')
    writeFileSync(path, 'abc')
    await workspace.announceAppend(path, bytesAdded)
    expect(seen.events).toEqual([{ type: 'updated', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 }])
  })

  it('are silent for what is outside, never crosses, or is no file', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const outside = tempDir()
    mkdirSync(join(dir, 'plugins/p'), { recursive: true })
    symlinkSync(outside, join(dir, 'files/out'))
    const paths = [
      'session.lock',
      'plugins/p/store.db',
      'plugins/p/store.db-wal',
      'plugins/p/store.db-shm',
      'files/own.sqlite',
      'files/.nexus-tmp-0123456789abcdef',
      'files/out/a',
    ].map((path) => join(dir, path))
    paths.push(join(outside, 'b'), `${dir}-twin`)
    for (const path of paths.slice(0, -1)) writeFileSync(path, 'x')
    paths.push(dir, join(dir, 'files'), join(dir, 'files/none'), 'files/relative', '', join(dir, '../..'))
    for (const path of paths) {
      await workspace.announceWrite(path, false)
      await workspace.announceAppend(path, 1)
    }
    expect(seen.events).toEqual([])
  })

  it('are silent without a bus, and speak once there is one', async () => {
    const { workspace, dir, seen } = await openTestWorkspace({ bus: undefined as never })
    await workspace.writeFile('files/a', 'x')
    await workspace.announceWrite(join(dir, 'files/a'), false)
    workspace.attachBus(seen)
    await workspace.announceWrite(join(dir, 'files/a'), true)
    expect(seen.events).toHaveLength(1)
  })
})

describe('events', () => {
  it('are handled before the helper resolves, and the handler may write the same path', async () => {
    const { workspace, seen } = await openTestWorkspace()
    seen.handler = async ({ path, type }) => {
      if (type === 'created') await workspace.appendFile(path, '!')
    }
    await workspace.writeFile('files/a', 'x')
    expect((await workspace.readFile('files/a')).toString()).toBe('x!')
  })

  it('never make a write fail: it has happened', async () => {
    const lost: object[] = []
    const { workspace, seen } = await openTestWorkspace({
      logger: { ...silentLogger, warn: (fields) => void lost.push(fields) },
    })
    seen.handler = () => Promise.reject(new Error('no bus any more'))
    await workspace.writeFile('files/a', 'x')
    await workspace.deleteFile('files/a')
    expect(lost).toMatchObject([{ path: 'files/a', type: 'session.file.created' }, { type: 'session.file.deleted' }])
  })

  it('go out through the given emitter, so that they can be children of an event', async () => {
    const { workspace, seen } = await openTestWorkspace()
    const through: string[] = []
    const via = { emit: async (type: string) => void through.push(type) }
    await workspace.writeFile('files/a', 'x', { via })
    await workspace.appendFile('files/a', 'x', { via })
    await workspace.deleteFile('files/a', { via })
    await workspace.saveMeta(workspace.meta(), { via })
    expect(through).toEqual(['created', 'updated', 'deleted', 'updated'].map((what) => `session.file.${what}`))
    expect(seen.events).toEqual([])
  })
})
