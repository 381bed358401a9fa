import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { tempDir } from '../../test/temp-dir.ts'
import { Destination, safeDestination } from './destination.ts'
import { isObjectFailure } from '../errors.ts'
import { hydrateObjects } from './hydrate.ts'
import { replaceFile } from './replace-file.ts'

function listing(count: number): { key: string; size: number }[] {
  return Array.from({ length: count }, (_, i) => ({ key: `s/d${i % 3}/f${i}`, size: 4 }))
}

describe('hydrateObjects', () => {
  it('downloads with bounded concurrency, through temporary files that are gone afterwards', async () => {
    const dir = tempDir()
    let running = 0
    let most = 0
    await hydrateObjects(
      listing(40),
      's',
      dir,
      async ({ key }, tempPath) => {
        most = Math.max(most, ++running)
        expect(tempPath).toMatch(/\/\.nexus-tmp-[0-9a-f]{17,}$/)
        await setImmediate()
        writeFileSync(tempPath, key.slice(-4).padStart(4))
        running--
      },
      { concurrency: 5 },
    )
    expect(most).toBe(5)
    const names = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    expect(names).toHaveLength(40)
    expect(names.filter(({ name }) => name.startsWith('.nexus-tmp-'))).toEqual([])
  })

  it('reports bytes as they arrive, and each object once', async () => {
    const seen: string[] = []
    await hydrateObjects(
      [{ key: 's/a', size: 6 }],
      's',
      tempDir(),
      (_file, tempPath, { onBytes }) => {
        writeFileSync(tempPath, '123456')
        onBytes(2)
        onBytes(2)
      },
      { onProgress: ({ objects, bytes }) => seen.push(`${objects}/${bytes}`) },
    )
    expect(seen).toEqual(['0/2', '0/4', '1/6'])
  })

  it('catches a short download, names it, and leaves the file that was there', async () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'a'), 'precious')
    const run = hydrateObjects([{ key: 's/a', size: 6 }], 's', dir, (_file, tempPath) => writeFileSync(tempPath, '123'))
    await expect(run).rejects.toMatchObject({ code: 'UNAVAILABLE', key: 's/a', retryable: true })
    expect(readFileSync(join(dir, 'a'), 'utf8')).toBe('precious')
    expect(readdirSync(dir)).toEqual(['a'])
  })

  it('takes the size the store declares over the listed one: the object was replaced since', async () => {
    const dir = tempDir()
    await hydrateObjects([{ key: 's/a', size: 6 }], 's', dir, (_file, tempPath) => {
      writeFileSync(tempPath, 'longer now')
      return 10
    })
    expect(readFileSync(join(dir, 'a'), 'utf8')).toBe('longer now')
  })

  it('names the object a download failed on, with the error as cause, and stops the others', async () => {
    const cause = new Error('connection reset')
    let aborted = 0
    let started = 0
    const run = hydrateObjects(
      listing(30),
      's',
      tempDir(),
      async ({ key }, tempPath, { signal }) => {
        started++
        if (key === 's/d1/f4') throw cause
        signal.addEventListener('abort', () => aborted++)
        for (let turn = 0; turn < 20 && !signal.aborted; turn++) await setImmediate()
        writeFileSync(tempPath, '1234')
      },
      { concurrency: 8 },
    )
    const error: unknown = await run.catch((reason: unknown) => reason)
    expect(isObjectFailure(error)).toBe(true)
    expect(error).toMatchObject({ key: 's/d1/f4', cause })
    expect(started).toBeLessThan(30)
    expect(aborted).toBeGreaterThan(0)
  })

  it('rejects with the reason of its signal and writes nothing afterwards', async () => {
    const dir = tempDir()
    const abort = new AbortController()
    const run = hydrateObjects(
      listing(30),
      's',
      dir,
      async (_file, tempPath, { signal }) => {
        abort.abort('enough')
        await setImmediate()
        signal.throwIfAborted()
        writeFileSync(tempPath, '1234')
      },
      { signal: abort.signal },
    )
    await expect(run).rejects.toBe('enough')
    const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    expect(files).toEqual([])
  })

  it('writes nothing when the listing can not be a tree', async () => {
    const dir = join(tempDir(), 'destination')
    const objects = [
      { key: 's/fine', size: 1 },
      { key: 's/../evil', size: 1 },
    ]
    await expect(hydrateObjects(objects, 's', dir, () => expect.unreachable())).rejects.toMatchObject({
      key: 's/../evil',
    })
    expect(() => readdirSync(dir)).toThrow('ENOENT')
  })
})

describe('Destination', () => {
  it('creates parents, and goes through a link that stays inside', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'real'))
    symlinkSync('real', join(dir, 'link'))
    const destination = new Destination(dir)
    expect(destination.resolve('a/b/c')).toBe(join(dir, 'a/b/c'))
    writeFileSync(destination.resolve('link/f'), 'x')
    expect(readFileSync(join(dir, 'real/f'), 'utf8')).toBe('x')
  })

  it.each(['../outside', '/', 'missing'])('refuses a directory that is a link to %s', (target) => {
    const dir = tempDir()
    mkdirSync(join(dir, 'outside'))
    mkdirSync(join(dir, 'inside'))
    symlinkSync(target, join(dir, 'inside', 'link'))
    expect(() => safeDestination(join(dir, 'inside'), 'link/f')).toThrow(
      expect.objectContaining({ code: 'PRECONDITION', key: 'link/f' }),
    )
    expect(() => safeDestination(join(dir, 'inside'), 'link/deeper/f')).toThrow(/symbolic link|is not a directory/)
  })

  it('is not fooled by a sibling whose name begins alike', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'dest'))
    mkdirSync(join(dir, 'dest-other'))
    symlinkSync(join(dir, 'dest-other'), join(dir, 'dest', 'link'))
    expect(() => safeDestination(join(dir, 'dest'), 'link/f')).toThrow(/leads outside/)
  })

  it('works below a destination that is itself reached through a link', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'real', 'sub'), { recursive: true })
    symlinkSync('sub', join(dir, 'real', 'inner'))
    symlinkSync('real', join(dir, 'alias'))
    expect(safeDestination(join(dir, 'alias'), 'inner/f')).toBe(join(dir, 'alias/inner/f'))
  })

  it('refuses a parent that is a file, and a path that is no key', () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'f'), '')
    expect(() => safeDestination(dir, 'f/below')).toThrow(/f is not a directory/)
    expect(() => safeDestination(dir, '../x')).toThrow(expect.objectContaining({ name: 'InvalidKeyError' }))
  })
})

describe('replaceFile', () => {
  it('leaves what was there when the write fails', async () => {
    const dir = tempDir()
    const path = join(dir, 'f')
    writeFileSync(path, 'precious')
    const run = replaceFile(path, 'k', async (tempPath) => {
      writeFileSync(tempPath, 'half')
      throw new Error('cut')
    })
    await expect(run).rejects.toThrow('cut')
    expect(readFileSync(path, 'utf8')).toBe('precious')
    expect(readdirSync(dir)).toEqual(['f'])
  })

  it('replaces a link and does not follow it', async () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'target'), 'outside')
    symlinkSync('target', join(dir, 'link'))
    const size = await replaceFile(join(dir, 'link'), 'k', async (tempPath) => {
      writeFileSync(tempPath, 'new')
      return undefined
    })
    expect(size).toBe(3)
    expect(readFileSync(join(dir, 'target'), 'utf8')).toBe('outside')
    expect(readFileSync(join(dir, 'link'), 'utf8')).toBe('new')
  })

  it('works for a name of 255 bytes', async () => {
    const path = join(tempDir(), 'n'.repeat(255))
    await replaceFile(path, 'k', async (tempPath) => {
      writeFileSync(tempPath, 'x')
      return 1
    })
    expect(readFileSync(path, 'utf8')).toBe('x')
  })
})
