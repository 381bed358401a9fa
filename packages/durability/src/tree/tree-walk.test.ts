import { execFileSync } from 'node:child_process'
import nodeFs, {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  type PathLike,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { Slices, TreeCursor } from '@nexus/host'
import { isRacy, sameFileStat, toFileStat } from './tree-stat.ts'
import { TreeWalker, type WalkedTree, type WalkFs } from './tree-walk.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(nodeFs.realpathSync(tmpdir()), 'nexus-walk-'))
})
afterEach(() => {
  execFileSync('chmod', ['-R', 'u+rwx', root])
  rmSync(root, { recursive: true })
})

function put(path: string, content = 'x'): void {
  mkdirSync(dirname(join(root, path)), { recursive: true, mode: 0o700 })
  writeFileSync(join(root, path), content)
}

/** A directory is read through a descriptor: the name it has. */
const named = (on: PathLike): string =>
  String(on).replace(/^\/proc\/\d+\/fd\/\d+/, (descriptor) => nodeFs.readlinkSync(descriptor))

function cursorOf(dir = root): TreeCursor {
  const cursor = new TreeCursor(dir)
  onTestFinished(() => cursor.close())
  return cursor
}

const walker = (fs?: WalkFs, maxPathBytes = 1000): TreeWalker =>
  new TreeWalker(cursorOf(), { maxPathBytes, ...(fs === undefined ? {} : { fs }) })
const walk = (fs?: WalkFs, maxPathBytes?: number): Promise<WalkedTree> => walker(fs, maxPathBytes).walk()
const paths = (map: Map<string, unknown>): string[] => [...map.keys()].toSorted()

/** The file system, with something that happens just before the n-th call on a path. */
function racing(op: 'readdirSync' | 'lstatSync', path: string, happens: () => void, nth = 1): WalkFs {
  let calls = 0
  const hook = (on: PathLike): void => {
    if (named(on) === (path === '' ? root : join(root, path)) && ++calls === nth) happens()
  }
  return {
    lstatSync: ((on: PathLike, options: object) => {
      if (op === 'lstatSync') hook(on)
      return nodeFs.lstatSync(on, options)
    }) as WalkFs['lstatSync'],
    readdirSync: ((on: PathLike, options: object) => {
      if (op === 'readdirSync') hook(on)
      return nodeFs.readdirSync(on, options)
    }) as WalkFs['readdirSync'],
    readlinkSync: nodeFs.readlinkSync,
  }
}

/** As if the tree had been left alone for a while, so that only real changes show. */
function settle(): void {
  execFileSync('find', [root, '-exec', 'touch', '-h', '-d', '2001-01-01', '{}', '+'])
}

describe('a walk', () => {
  it('finds files with sizes, directories with modes, links with their text', async () => {
    put('files/a', 'abc')
    put('files/sub/b')
    mkdirSync(join(root, 'empty'), { mode: 0o700 })
    chmodSync(join(root, 'files/sub'), 0o750)
    symlinkSync('../nowhere', join(root, 'files/l'))
    const tree = await walk()
    expect(paths(tree.files)).toEqual(['files/a', 'files/sub/b'])
    expect(tree.files.get('files/a')?.size).toBe(3)
    expect([...tree.dirs].toSorted(([x], [y]) => (x < y ? -1 : 1))).toEqual([
      ['empty', 0o700],
      ['files', 0o700],
      ['files/sub', 0o750],
    ])
    expect([...tree.links]).toEqual([['files/l', '../nowhere']])
    expect(tree.unstorable).toEqual([])
  })

  it('never follows a link: loops end, and what lies outside stays there', async () => {
    put('files/a')
    symlinkSync('..', join(root, 'files/loop'))
    symlinkSync('self', join(root, 'files/self'))
    symlinkSync('/etc', join(root, 'files/etc'))
    symlinkSync('/etc/passwd', join(root, 'files/passwd'))
    const tree = await walk()
    expect(paths(tree.files)).toEqual(['files/a'])
    expect(paths(tree.links)).toEqual(['files/etc', 'files/loop', 'files/passwd', 'files/self'])
  })

  it('leaves out FIFOs and sockets without touching them', async () => {
    put('files/a')
    execFileSync('mkfifo', [join(root, 'files/fifo')])
    const server: Server = createServer()
    await new Promise<void>((resolve) => {
      server.listen(join(root, 'files/sock'), () => resolve())
    })
    const tree = await walk()
    server.close()
    expect(paths(tree.files)).toEqual(['files/a'])
    expect(tree.specials.toSorted()).toEqual(['files/fifo', 'files/sock'])
  })

  it('leaves out the lock, temporary files and sidecars by name, and nothing that only looks like them', async () => {
    const local = ['session.lock', '.nexus-tmp-0123456789abcdef', 'journal/.nexus-tmp-journal-seal', 'p/store.db-wal']
    const honest = ['files/session.lock', 'files/my-journal', 'p/store.db']
    for (const path of [...local, ...honest]) put(path)
    const tree = await walk()
    expect(paths(tree.files)).toEqual(honest.toSorted())
    expect(tree.sidecars).toEqual(['p/store.db-wal'])
  })

  it('names what can not be a key, and takes the rest', async () => {
    put('files/ok')
    put('files/back\\slash')
    mkdirSync(join(root, 'files/dir\\x'))
    put('files/dir\\x/below')
    put(`files/${'n'.repeat(200)}/${'m'.repeat(200)}`)
    writeFileSync(Buffer.concat([Buffer.from(join(root, 'files/')), Buffer.from([0xff])]), 'bytes')
    writeFileSync(join(root, 'files/\uFFFD'), 'replacement')
    symlinkSync(Buffer.from([0x61, 0xff]), join(root, 'files/l'))
    const tree = await walk(undefined, 300)
    expect(paths(tree.files)).toEqual(['files/ok', 'files/\uFFFD'])
    expect(tree.files.get('files/\uFFFD')?.size).toBe('replacement'.length)
    expect(tree.unstorable.map(({ path, why }) => `${path}: ${why}`).toSorted()).toEqual([
      'files/\\xff: its name is not UTF-8',
      'files/back\\slash: its name contains a backslash',
      'files/dir\\x: its name contains a backslash',
      'files/l: it is a link whose text is not UTF-8',
      expect.stringMatching(/^files\/n+\/m+: its path is longer than 300 bytes/),
    ])
  })

  it('keeps two files apart whose bytes read as the same text', async () => {
    for (const byte of [0xfe, 0xff]) writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([byte])]), 'x')
    const tree = await walk()
    expect(tree.files.size).toBe(0)
    expect(tree.unstorable.map(({ path }) => path).toSorted()).toEqual(['\\xfe', '\\xff'])
  })

  it('fails when the session directory itself is gone', async () => {
    mkdirSync(join(root, 'gone'))
    const gone = new TreeWalker(cursorOf(join(root, 'gone')), { maxPathBytes: 1000 })
    rmSync(join(root, 'gone'), { recursive: true })
    await expect(gone.walk()).rejects.toMatchObject({ code: 'NOT_FOUND', key: join(root, 'gone') })
    writeFileSync(join(root, 'gone'), '')
    await expect(gone.walk()).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('fails, and does not find an empty tree, when the session directory is replaced while it is walked', async () => {
    put('s/files/a')
    const swap = racing('readdirSync', 's/files', () => {
      renameSync(join(root, 's'), join(root, 'old'))
      mkdirSync(join(root, 's'))
    })
    const racy = new TreeWalker(cursorOf(join(root, 's')), { maxPathBytes: 1000, fs: swap })
    await expect(racy.walk()).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('lets the event loop run between slices, and stops when the signal fires', async () => {
    for (let n = 0; n < 50; n++) put(`files/${n}`)
    const abort = new AbortController()
    const slices = new Slices({ sliceMs: 0, signal: abort.signal })
    const walking = new TreeWalker(cursorOf(), { maxPathBytes: 1000, slices }).walk()
    setImmediate(() => abort.abort(new Error('enough')))
    await expect(walking).rejects.toThrow('enough')
  })
})

describe('a tree that changes while it is walked', () => {
  it('loses neither name of a file that moves into a directory that was read already', async () => {
    put('a/keep')
    put('b/moves')
    settle()
    const first = (await walk()).files
    expect(first.size).toBe(2)
    for (const [op, path] of [
      ['readdirSync', 'a'],
      ['readdirSync', 'b'],
    ] as const) {
      // Just before either directory is read, the file goes to the other one and comes back for the next round.
      const tree = await walk(
        racing(op, path, () => {
          const [from, to] = path === 'b' ? ['b', 'a'] : ['b', 'a']
          renameSync(join(root, from, 'moves'), join(root, to, 'moves'))
        }),
      )
      expect(paths(tree.files)).toEqual(['a/keep', 'a/moves'])
      renameSync(join(root, 'a/moves'), join(root, 'b/moves'))
      settle()
    }
  })

  it('finds a file that was renamed between the listing of its directory and the look at it', async () => {
    put('d/old')
    put('d/other')
    settle()
    const tree = await walk(racing('lstatSync', 'd/old', () => renameSync(join(root, 'd/old'), join(root, 'd/new'))))
    expect(paths(tree.files)).toEqual(['d/new', 'd/other'])
  })

  it('finds a directory that was renamed, with all that is below it', async () => {
    for (let n = 0; n < 20; n++) put(`d/sub/${n}`)
    settle()
    const tree = await walk(
      racing('readdirSync', 'd/sub', () => renameSync(join(root, 'd/sub'), join(root, 'd/moved'))),
    )
    expect(paths(tree.files)).toEqual(Array.from({ length: 20 }, (_, n) => `d/moved/${n}`).toSorted())
    expect([...tree.dirs.keys()].toSorted()).toEqual(['d', 'd/moved'])
  })

  it.each(['a', 'b'])(
    'sees a move out of %s within one tick of the clock, where no time stamp changes',
    async (from) => {
      put('a/keep')
      put('b/keep')
      put(`${from}/moves`)
      const to = from === 'a' ? 'b' : 'a'
      // Directories keep the stamps they have now, as under a coarse clock.
      const frozen = new Map(
        ['', 'a', 'b'].map((path) => [join(root, path), nodeFs.lstatSync(join(root, path), { bigint: true })]),
      )
      let moved = false
      const coarse: WalkFs = {
        ...nodeFs,
        lstatSync: ((on: PathLike, options: object) => {
          const now = nodeFs.lstatSync(on, options)
          const then = frozen.get(named(on))
          return then === undefined
            ? now
            : Object.assign(now as object, { mtimeNs: then.mtimeNs, ctimeNs: then.ctimeNs })
        }) as WalkFs['lstatSync'],
        readdirSync: ((on: PathLike, options: object) => {
          if (!moved && named(on) === join(root, from)) {
            moved = true
            renameSync(join(root, from, 'moves'), join(root, to, 'moves'))
          }
          return nodeFs.readdirSync(on, options)
        }) as WalkFs['readdirSync'],
      }
      const tree = await walk(coarse)
      expect(paths(tree.files)).toEqual(['a/keep', 'b/keep', `${to}/moves`].toSorted())
    },
  )

  it('is taken as last seen when it never comes to rest, three looks in all', async () => {
    put('d/stays')
    let looks = 0
    const restless = racing('readdirSync', 'never', () => undefined)
    const read = restless.readdirSync
    restless.readdirSync = ((on: PathLike, options: object) => {
      if (named(on) === join(root, 'd')) {
        looks++
        put(`d/temp-${looks}`)
        if (looks > 1) unlinkSync(join(root, `d/temp-${looks - 1}`))
      }
      return read(on, options as never)
    }) as WalkFs['readdirSync']
    const tree = await walk(restless)
    expect(tree.files.has('d/stays')).toBe(true)
    expect(looks).toBeLessThanOrEqual(2 * 3)
  })

  it('never trusts what was read through a directory that is a link whenever it is read', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
    writeFileSync(join(outside, 'secret'), 'not yours')
    put('d/mine')
    const d = join(root, 'd')
    let swaps = 0
    const swap: WalkFs = {
      ...nodeFs,
      readdirSync: ((on: PathLike, options: object) => {
        if (named(on) === d) {
          // Kept, so that the next one can't get its inode.
          renameSync(d, join(root, `old-${++swaps}`))
          symlinkSync(outside, d)
        }
        return nodeFs.readdirSync(on, options)
      }) as WalkFs['readdirSync'],
      lstatSync: ((on: PathLike, options: object) => {
        if (named(on) === d && nodeFs.lstatSync(d).isSymbolicLink()) {
          unlinkSync(d)
          mkdirSync(d)
        }
        return nodeFs.lstatSync(on, options)
      }) as WalkFs['lstatSync'],
    }
    const tree = await walk(swap)
    expect(swaps).toBeGreaterThan(2)
    expect(paths(tree.files).filter((path) => path.includes('secret'))).toEqual([])
    rmSync(outside, { recursive: true })
  })

  it('is looked at again on request, only where something changed', async () => {
    put('a/one')
    put('b/two')
    settle()
    const read: string[] = []
    const fs: WalkFs = {
      ...nodeFs,
      readdirSync: ((on: PathLike, options: object) => {
        read.push(named(on))
        return nodeFs.readdirSync(on, options)
      }) as WalkFs['readdirSync'],
    }
    const again = walker(fs)
    await again.walk()
    await new Promise((resolve) => setTimeout(resolve, 60))
    await again.lookAgain()
    read.length = 0
    renameSync(join(root, 'a/one'), join(root, 'a/uno'))
    const tree = await again.lookAgain()
    expect(paths(tree.files)).toEqual(['a/uno', 'b/two'])
    expect(new Set(read)).toEqual(new Set([join(root, 'a')]))
  })
})

describe('a directory that can not be read', () => {
  it('is named with the reason, and the rest is walked', async () => {
    put('open/a')
    put('closed/b')
    const deny: WalkFs = {
      ...nodeFs,
      readdirSync: ((on: PathLike, options: object) => {
        if (named(on) === join(root, 'closed')) throw Object.assign(new Error('no'), { code: 'EACCES' })
        return nodeFs.readdirSync(on, options)
      }) as WalkFs['readdirSync'],
    }
    const tree = await walk(deny)
    expect(paths(tree.files)).toEqual(['open/a'])
    expect(tree.unstorable).toEqual([{ path: 'closed', why: "it can't be read (EACCES)", tree: true }])
    expect(tree.dirs.has('closed')).toBe(true)
  })

  it('fails the walk when it is the session itself', async () => {
    const deny: WalkFs = {
      ...nodeFs,
      readdirSync: () => {
        throw Object.assign(new Error('no'), { code: 'EACCES' })
      },
    }
    await expect(walk(deny)).rejects.toMatchObject({ code: 'PERMISSION' })
  })

  it('whose names can be read but not looked at leaves each of them named', async () => {
    put('d/a')
    const deny: WalkFs = {
      ...nodeFs,
      lstatSync: ((on: PathLike, options: object) => {
        if (named(on) === join(root, 'd/a')) throw Object.assign(new Error('no'), { code: 'EACCES' })
        return nodeFs.lstatSync(on, options)
      }) as WalkFs['lstatSync'],
    }
    expect((await walk(deny)).unstorable).toEqual([{ path: 'd/a', why: "it can't be read (EACCES)", tree: true }])
  })
})

describe('a machine that has run out of something', () => {
  const failing = (op: keyof WalkFs, path: string, code: string, nth: number): WalkFs => {
    let calls = 0
    const call = (on: PathLike, options: object): unknown => {
      if (named(on) === join(root, path) && ++calls === nth) throw Object.assign(new Error(code), { code })
      return (nodeFs[op] as (on: PathLike, options: object) => unknown)(on, options)
    }
    return { ...nodeFs, [op]: call }
  }

  it.each(['EMFILE', 'ENFILE', 'ENOMEM', 'EIO'])(
    'fails the walk, wherever %s strikes, and names the path',
    async (code) => {
      put('d/sub/a')
      put('d/\uFFFD')
      symlinkSync('a', join(root, 'd/l'))
      const strikes: [keyof WalkFs, string, number][] = [
        ['readdirSync', '', 1],
        ['readdirSync', 'd', 1],
        // Names that aren't UTF-8, and the look whether anything changed.
        ['readdirSync', 'd', 2],
        ['readdirSync', 'd', 3],
        ['readdirSync', 'd/sub', 1],
        ['lstatSync', 'd', 1],
        ['lstatSync', 'd', 2],
        ['lstatSync', 'd/sub/a', 1],
        ['readlinkSync', 'd/l', 1],
      ]
      for (const [at, [op, path, nth]] of strikes.entries()) {
        // The walk looks once more at a directory only when it has just been changed.
        put(`d/changed-${at}`)
        await expect(walk(failing(op, path, code, nth)), `${op} ${path} ${nth}`).rejects.toMatchObject({
          code: 'LOCAL_IO',
          key: expect.stringContaining(path),
          retryable: true,
        })
      }
    },
  )
})

describe('a stat', () => {
  it('tells a rewrite of the same length, also when the time is put back', () => {
    put('f', 'aaaa')
    utimesSync(join(root, 'f'), 1e9, 1e9)
    const stat = (): ReturnType<typeof toFileStat> => toFileStat(nodeFs.lstatSync(join(root, 'f'), { bigint: true }))
    const before = stat()
    expect(sameFileStat(before, stat())).toBe(true)
    const end = Date.now() + 30
    while (Date.now() < end);
    put('f', 'bbbb')
    utimesSync(join(root, 'f'), 1e9, 1e9)
    expect(sameFileStat(before, stat())).toBe(false)
  })

  it('taken right after a change may not show the next one', () => {
    put('f')
    const stat = toFileStat(nodeFs.lstatSync(join(root, 'f'), { bigint: true }))
    expect(isRacy(stat)).toBe(true)
    expect(isRacy({ ...stat, ctimeNs: stat.ctimeNs - 1_000_000_000n })).toBe(false)
  })
})
