import fs from 'node:fs'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SyncFileSystem } from '../src/disk/file-system.ts'
import { crashSteps, objectsAfter, perform } from './crash-steps.ts'
import { openDirectBucket, type DirectBucket } from './direct-bucket.ts'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket

beforeEach(() => {
  test = createTestBucket()
})

afterEach(() => test.remove())

type Call = [name: keyof SyncFileSystem, args: unknown[]]

/** A disk that shows each call to `before` first, which may throw in its place. */
function watchedDisk(before: (call: Call) => void): SyncFileSystem {
  return new Proxy(fs, {
    get(target, name: keyof SyncFileSystem) {
      const real = target[name] as unknown
      if (typeof real !== 'function') return real
      return (...args: unknown[]): unknown => {
        before([name, args])
        // Thousands of them for a test that does not take the power away.
        if (name === 'fsyncSync' || name === 'fdatasyncSync') return undefined
        return (real as (...args: unknown[]) => unknown)(...args)
      }
    },
  })
}

function systemError(code: string, syscall: string): Error {
  return Object.assign(new Error(`${code}: injected, ${syscall}`), { code, syscall })
}

const MUTATING = new Set<string>([
  'openSync',
  'writeSync',
  'mkdirSync',
  'renameSync',
  'linkSync',
  'unlinkSync',
  'fdatasyncSync',
  'fsyncSync',
])

async function contents(bucket: DirectBucket): Promise<Map<string, string>> {
  const objects = new Map<string, string>()
  for (const { key } of await bucket.list('')) {
    const path = test.freshPath()
    await bucket.get(key, path)
    objects.set(key, readFileSync(path, 'utf8'))
  }
  return objects
}

describe('a bucket on a disk that fails', () => {
  it.each(['EIO', 'ENOSPC'])('with %s at any one call keeps every object whole, old or new', async (code) => {
    let calls = 0
    const count = watchedDisk(([name]) => void (MUTATING.has(name) && calls++))
    await runSteps(openDirectBucket(fresh('probe'), { fs: count }))
    const total = calls
    expect(total).toBeGreaterThan(80)
    for (let failing = 0; failing < total; failing++) {
      let call = 0
      const disk = watchedDisk(([name]) => {
        if (MUTATING.has(name) && call++ === failing) throw systemError(code, name)
      })
      const root = fresh(String(failing))
      const { done, error } = await runSteps(openDirectBucket(root, { fs: disk }))
      const after = openDirectBucket(root)
      const possible = error === undefined ? [done] : [done, done + 1]
      expect(possible.map((steps) => objectsAfter(steps))).toContainEqual(await contents(after))
      // A temp file stays only where removing it was what failed.
      const temps = existsSync(join(root, '\\tmp')) ? readdirSync(join(root, '\\tmp')) : []
      expect(temps.length).toBeLessThanOrEqual(1)
    }
  })

  it('does not claim to know whether a link whose answer was lost has happened', async () => {
    for (const [applied, code, expected] of [
      [false, 'EIO', 'OUTCOME_UNKNOWN'],
      [false, 'EEXIST', false],
      [false, 'EACCES', 'EACCES'],
      [false, 'EPERM', 'UNSUPPORTED'],
      // The link is there, whatever the answer says: the count on the temp file tells.
      [true, 'EEXIST', true],
      [true, 'EIO', true],
    ] as const) {
      const root = fresh(`${code}-${applied}`)
      const disk = watchedDisk(([name, args]) => {
        if (name !== 'linkSync') return
        if (applied) fs.linkSync(String(args[0]), String(args[1]))
        throw systemError(code, 'link')
      })
      const outcome = await openDirectBucket(root, { fs: disk })
        .create('k', test.file('x'))
        .catch((error: unknown) => (isNexusError(error) ? error.code : (error as NodeJS.ErrnoException).code))
      expect([code, applied, outcome]).toEqual([code, applied, expected])
      expect(readdirSync(join(root, '\\tmp'))).toEqual([])
    }
  })

  it('takes a rename that was sent twice for done', async () => {
    const root = fresh('rename')
    const disk = watchedDisk(([name, args]) => {
      if (name === 'renameSync') fs.renameSync(String(args[0]), String(args[1]))
    })
    await openDirectBucket(root, { fs: disk }).put('k', test.file('x'))
    expect(readFileSync(join(root, 'k'), 'utf8')).toBe('x')
  })

  it('leaves the local file of a failed download as it was', async () => {
    const root = fresh('download')
    await openDirectBucket(root).put('k', test.file('stored'))
    const local = test.file('kept')
    const directory = join(local, '..')
    const before = readdirSync(directory)
    const disk = watchedDisk(([name]) => {
      if (name === 'writeSync') throw systemError('ENOSPC', 'write')
    })
    await expect(openDirectBucket(root, { fs: disk }).get('k', local)).rejects.toMatchObject({ code: 'ENOSPC' })
    expect(readFileSync(local, 'utf8')).toBe('kept')
    expect(readdirSync(directory)).toEqual(before)
  })
})

/** What a put or delete does that matters after a power loss, in order. */
async function trace(run: (bucket: DirectBucket) => Promise<unknown>, fsync = true): Promise<string[]> {
  const root = fresh('trace')
  const lines: string[] = []
  const names = new Map<number, string>()
  const short = (path: unknown): string =>
    String(path)
      .replace(root, '')
      .replace(/\\tmp\/.*/, '\\tmp/*') || '/'
  const disk: SyncFileSystem = {
    ...fs,
    openSync: (path, ...rest) => {
      const fd = fs.openSync(path, ...rest)
      names.set(fd, short(path))
      return fd
    },
    fdatasyncSync: (fd) => void lines.push(`sync ${names.get(fd)}`),
    fsyncSync: (fd) => void lines.push(`sync ${names.get(fd)}`),
    renameSync: (from, to) => (lines.push(`rename ${short(from)} ${short(to)}`), fs.renameSync(from, to)),
    linkSync: (from, to) => (lines.push(`link ${short(from)} ${short(to)}`), fs.linkSync(from, to)),
    unlinkSync: (path) => {
      fs.unlinkSync(path)
      lines.push(`unlink ${short(path)}`)
    },
    mkdirSync: ((path: string, options: fs.MakeDirectoryOptions) => {
      const made = fs.mkdirSync(path, options)
      lines.push(`mkdir ${short(path)}`)
      return made
    }) as typeof fs.mkdirSync,
  }
  await run(openDirectBucket(root, { fs: disk, fsync }))
  return lines
}

describe('durability', () => {
  it('of a put is the file before its name, then its directory and those that are new', async () => {
    const path = test.file('x')
    const twice = async (bucket: DirectBucket): Promise<void> => {
      await bucket.put('a/b/f', path)
      await bucket.put('a/b/f', test.file('y'))
    }
    expect(await trace(twice)).toEqual([
      'mkdir /\\tmp',
      'sync /\\tmp/*',
      'mkdir /a',
      'mkdir /a/b',
      'rename /\\tmp/* /a/b/f',
      'sync /',
      'sync /a',
      'sync /a/b',
      'sync /\\tmp/*',
      'rename /\\tmp/* /a/b/f',
      'sync /a/b',
    ])
  })

  it('of a put of what is there already is its file and its directory, once, whoever wrote it', async () => {
    const lines = await trace(async (bucket) => {
      await bucket.put('mine', test.file('x'))
      await bucket.put('mine', test.file('x'))
      writeFileSync(join(bucket.context.bucket, 'other'), 'y')
      for (let round = 0; round < 3; round++) await bucket.put('other', test.file('y'))
    })
    expect(lines.slice(-3)).toEqual(['sync /', 'sync /other', 'sync /'])
  })

  it('of a creation is the file before its name, then the directory', async () => {
    expect(await trace((bucket) => bucket.create('f', test.file('x')))).toEqual([
      'mkdir /\\tmp',
      'sync /\\tmp/*',
      'link /\\tmp/* /f',
      'unlink /\\tmp/*',
      'sync /',
    ])
  })

  it('of a deletion is its directory', async () => {
    const lines = await trace(async (bucket) => {
      await bucket.put('f', test.file('x'))
      await bucket.delete('f')
    })
    expect(lines.slice(-2)).toEqual(['unlink /f', 'sync /'])
  })

  it('of an object that is moved aside comes before it leaves its place', async () => {
    const lines = await trace(async (bucket) => {
      await bucket.put('f', test.file('x'))
      await bucket.put('f/below', test.file('y'))
    })
    const moved = lines.slice(lines.indexOf('link /f /\\at-prefix/f'))
    expect(moved.slice(0, 5)).toEqual([
      'link /f /\\at-prefix/f',
      'sync /\\at-prefix',
      'sync /',
      'unlink /f',
      'mkdir /f',
    ])
  })

  it('of puts that come together costs one fsync per directory', async () => {
    const path = test.file('x')
    const lines = await trace((bucket) => Promise.all(Array.from({ length: 16 }, (_, n) => bucket.put(`d/${n}`, path))))
    expect(lines.filter((line) => line === 'sync /d')).toHaveLength(1)
    expect(lines.filter((line) => line === 'sync /\\tmp/*')).toHaveLength(16)
  })

  it('is not asked for with fsync: false', async () => {
    const lines = await trace((bucket) => bucket.put('a/f', test.file('x')), false)
    expect(lines.filter((line) => line.startsWith('sync'))).toEqual([])
  })
})

function fresh(name: string): string {
  const root = join(test.bucket, name)
  mkdirSync(root)
  return root
}

async function runSteps(bucket: DirectBucket): Promise<{ done: number; error?: unknown }> {
  for (const [index, step] of crashSteps.entries()) {
    try {
      await perform(bucket, step, test.file(step.content ?? ''))
    } catch (error) {
      return { done: index, error }
    }
  }
  return { done: crashSteps.length }
}

describe('a local file that fails', () => {
  it('is told apart from the bucket', async () => {
    const bucket = openDirectBucket(fresh('local'))
    const path = test.file('x')
    renameSync(path, `${path}-moved`)
    await expect(bucket.put('k', path)).rejects.toMatchObject({ code: 'ENOENT', path })
    expect(await bucket.list('')).toEqual([])
  })
})
