import { mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { tempDir } from '../../test/temp-dir.ts'
import { Destination } from './destination.ts'
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
        expect(tempPath).toMatch(/\/\.nexus-tmp-[^/]+$/)
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

  it('downloads again what came out short, and goes on', async () => {
    const dir = tempDir()
    const seen: unknown[] = []
    let attempts = 0
    const download = (_file: unknown, tempPath: string, { onBytes }: { onBytes: (bytes: number) => void }): void => {
      const content = ++attempts < 3 ? '123' : '123456'
      writeFileSync(tempPath, content, { flag: 'wx' })
      onBytes(content.length)
    }
    await hydrateObjects([{ key: 's/a', size: 6 }], 's', dir, download, { onProgress: (p) => seen.push(p) })
    expect(readFileSync(join(dir, 'a'), 'utf8')).toBe('123456')
    expect(seen.at(-1)).toEqual({ objects: 1, bytes: 6, repeatedBytes: 6 })
  })

  it('calls an object damaged that comes out short each time, and leaves the file that was there', async () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'a'), 'precious')
    const run = hydrateObjects([{ key: 's/a', size: 6 }], 's', dir, (_file, tempPath) => writeFileSync(tempPath, '123'))
    await expect(run).rejects.toMatchObject({ code: 'CORRUPT', key: 's/a' })
    expect(readFileSync(join(dir, 'a'), 'utf8')).toBe('precious')
    expect(readdirSync(dir)).toEqual(['a'])
  })

  it('calls it an outage when each attempt is cut elsewhere, and a replaced object what it is', async () => {
    let length = 1
    const cut = hydrateObjects([{ key: 's/a', size: 6 }], 's', tempDir(), (_file, tempPath) =>
      writeFileSync(tempPath, 'x'.repeat(length++)),
    )
    await expect(cut).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
    const replaced = hydrateObjects([{ key: 's/a', size: 6 }], 's', tempDir(), (_file, tempPath) =>
      writeFileSync(tempPath, 'longer now'),
    )
    await expect(replaced).rejects.toThrow(/more than the 6 expected: replaced since it was listed.*declared/)
  })

  it('waits as a whole only while all of its downloads wait', async () => {
    const seen: string[] = []
    await hydrateObjects(
      listing(2),
      's',
      tempDir(),
      async ({ key }, tempPath, { onWait }) => {
        const resume = onWait()
        if (key.endsWith('0')) {
          await setImmediate()
          resume()
        }
        await setImmediate()
        resume()
        writeFileSync(tempPath, '1234')
      },
      {
        onWait: () => {
          seen.push('waits')
          return () => seen.push('goes on')
        },
      },
    )
    expect(seen.slice(-2)).toEqual(['waits', 'goes on'])
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
  function write(dir: string, relPath: string, content = 'x'): void {
    const destination = new Destination(dir)
    try {
      const tempPath = destination.tempPath()
      writeFileSync(tempPath, content)
      destination.place(tempPath, relPath)
    } finally {
      destination.close()
    }
  }

  it('creates parents, and leaves nothing else', () => {
    const dir = join(tempDir(), 'new')
    write(dir, 'a/b/c', 'content')
    expect(readFileSync(join(dir, 'a/b/c'), 'utf8')).toBe('content')
    expect(readdirSync(dir, { recursive: true })).toEqual(['a', 'a/b', 'a/b/c'])
  })

  it.each(['../outside', '/', 'missing', 'real', '../inside-other'])(
    'goes through no link, not one to %s',
    (target) => {
      const dir = tempDir()
      for (const name of ['outside', 'inside', 'inside/real', 'inside-other']) mkdirSync(join(dir, name))
      symlinkSync(target, join(dir, 'inside', 'link'))
      for (const relPath of ['link/f', 'link/deeper/f']) {
        expect(() => write(join(dir, 'inside'), relPath)).toThrow(
          expect.objectContaining({
            code: 'PRECONDITION',
            key: relPath,
            message: expect.stringContaining('symbolic link'),
          }),
        )
      }
      for (const other of ['outside', 'inside/real', 'inside-other']) expect(readdirSync(join(dir, other))).toEqual([])
    },
  )

  it('works below a destination that is itself reached through a link', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'real'))
    symlinkSync('real', join(dir, 'alias'))
    write(join(dir, 'alias'), 'inner/f')
    expect(readFileSync(join(dir, 'real/inner/f'), 'utf8')).toBe('x')
  })

  it('replaces a link in the place of a file', () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'outside'), 'precious')
    symlinkSync('../outside', join(dir, 'link'))
    write(dir, 'link', 'new')
    expect(readFileSync(join(dir, 'outside'), 'utf8')).toBe('precious')
    expect(readFileSync(join(dir, 'link'), 'utf8')).toBe('new')
  })

  it('refuses a parent that is a file, and a path that is no key', () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'f'), '')
    expect(() => write(dir, 'f/below')).toThrow(/f is not a directory/)
    expect(() => write(dir, '../x')).toThrow(expect.objectContaining({ name: 'InvalidKeyError' }))
  })

  it('holds no descriptor when it is closed', () => {
    const dir = tempDir()
    const before = readdirSync('/proc/self/fd').length
    const destination = new Destination(dir)
    for (let i = 0; i < 40; i++) {
      const tempPath = destination.tempPath()
      writeFileSync(tempPath, '')
      destination.place(tempPath, `d${i}/e/f`)
    }
    expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + 20)
    destination.close()
    expect(readdirSync('/proc/self/fd')).toHaveLength(before)
  })
})

describe('a tree that is attacked while it is hydrated', () => {
  it.each(['destination', 'parent', 'staging'])(
    'has nothing written outside when its %s is swapped for a link',
    async (what) => {
      const dir = tempDir()
      const destination = join(dir, 'destination')
      const outside = join(dir, 'outside')
      mkdirSync(destination)
      mkdirSync(outside)
      let swaps = 0
      const seen: string[] = []
      const swap = (path: string): void => {
        renameSync(path, join(dir, `was-${swaps++}`))
        symlinkSync(outside, path)
      }
      const objects = Array.from({ length: 60 }, (_, i) => ({ key: `s/d${i % 6}/f${i}`, size: 4 }))
      const failure: unknown = await hydrateObjects(
        objects,
        's',
        destination,
        async (_file, tempPath) => {
          writeFileSync(tempPath, '1234')
          for (const entry of what === 'destination' ? [] : readdirSync(destination, { withFileTypes: true })) {
            const isStaging = entry.name.startsWith('.nexus-tmp-')
            if (entry.isDirectory() && isStaging === (what === 'staging')) swap(join(destination, entry.name))
          }
          if (what === 'destination' && swaps === 0) swap(destination)
          await setImmediate()
          // The path that the driver was given is still the place it was.
          writeFileSync(tempPath, '4321')
          seen.push(...readdirSync(outside))
        },
        { concurrency: 4 },
      ).catch((error: unknown) => error)
      expect([undefined, 'PRECONDITION']).toContain((failure as { code?: string } | undefined)?.code)
      expect(swaps).toBeGreaterThan(0)
      expect([...seen, ...readdirSync(outside)]).toEqual([])
    },
  )
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
