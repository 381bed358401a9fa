import { mkdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { listing, tempDir } from '../testing/index.ts'
import { parseTreePath, treeParent, TreeRoot } from './tree-root.ts'
import { PathEscapeError } from './path-escape-error.ts'

function tree(): { root: TreeRoot; dir: string; outside: string } {
  const base = tempDir()
  const dir = join(base, 'session')
  const outside = join(base, 'outside')
  for (const path of [dir, outside, join(dir, 'files'), join(dir, 'files/deep')]) mkdirSync(path)
  writeFileSync(join(outside, 'secret'), 'secret')
  return { root: new TreeRoot(dir), dir, outside }
}

const escape = expect.objectContaining({ name: 'PathEscapeError', code: 'INVALID_ARGUMENT' })

function parsedOrError(path: string): unknown {
  try {
    return parseTreePath(path)
  } catch (error) {
    return error
  }
}

describe('parseTreePath', () => {
  it.each(['a', 'a/b', 'a..b', '..c', 'c..', '...', 'a/.b', 'C:x', 'é', '😀', 'a b', '#?%2B+&', 'x'.repeat(255)])(
    'takes %j as it is',
    (path) => {
      expect(parseTreePath(path)).toBe(path)
    },
  )

  it.each([
    ['./a', 'a'],
    ['a//b', 'a/b'],
    ['a/./b', 'a/b'],
  ])('reads %j as %j', (path, canonical) => {
    expect(parseTreePath(path)).toBe(canonical)
  })

  it.each([
    '',
    '.',
    './',
    '..',
    '../x',
    'a/../b',
    'a/..',
    'a/../../x',
    '/etc/passwd',
    '/',
    'a\0b',
    'a\\b',
    'C:\\x',
    '..\\x',
    'a/',
    '\ud83d',
    'a/\udc00',
  ])('refuses %j as a file', (path) => {
    expect(() => parseTreePath(path)).toThrow(escape)
  })

  it('takes the session itself and a trailing slash as a directory only', () => {
    expect(parseTreePath('', 'directory')).toBe('')
    expect(parseTreePath('.', 'directory')).toBe('')
    expect(parseTreePath('a/b/', 'directory')).toBe('a/b')
    expect(() => parseTreePath('../a', 'directory')).toThrow(escape)
  })

  it('keeps the path and the reason', () => {
    const error = parsedOrError('a/../b')
    expect(error).toBeInstanceOf(PathEscapeError)
    expect(error).toMatchObject({ path: 'a/../b', reason: 'holds ".."' })
  })

  it('gives a path that stays inside, or an error, for every string', () => {
    const segment = fc.oneof(fc.constantFrom('..', '.', '', 'a', '\\', '\0', '...'), fc.string({ unit: 'binary' }))
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 5 }), (segments) => {
        const given = segments.join('/')
        const outcome = parsedOrError(given)
        const stays = typeof outcome === 'string' && join('/root', outcome) === `/root/${outcome}`
        expect(stays || outcome instanceof PathEscapeError).toBe(true)
        expect(typeof outcome !== 'string' || parseTreePath(outcome) === outcome).toBe(true)
      }),
    )
  })
})

describe('TreeRoot.openSlot', () => {
  it('finds a file, a missing one, and one in the session itself', () => {
    const { root, dir } = tree()
    writeFileSync(join(dir, 'files/a'), 'abc')
    for (const [path, size] of [
      ['files/a', 3],
      ['files/deep/none', undefined],
      ['none', undefined],
    ] as const) {
      const slot = root.openSlot(path)
      expect(slot).toMatchObject({ relPath: path, name: path.split('/').at(-1) })
      expect(slot.stats?.size).toBe(size)
      slot.close()
    }
    expect(treeParent('a/b/c')).toBe('a/b')
    expect(treeParent('a')).toBe('')
  })

  it('makes directories that are missing only when told to, 0700 less the umask, and names each', () => {
    const { root, dir } = tree()
    expect(() => root.openSlot('new/sub/a')).toThrow(expect.objectContaining({ code: 'NOT_FOUND', key: 'new/sub/a' }))
    const made: string[] = []
    root.openSlot('new/sub/a', { create: true, onCreate: (path) => made.push(path) }).close()
    expect(made).toEqual(['new', 'new/sub'])
    expect(statSync(join(dir, 'new/sub')).mode & 0o777).toBe(0o700 & ~process.umask())
  })

  it('follows links that stay inside, to the real path', () => {
    const { root, dir } = tree()
    writeFileSync(join(dir, 'files/a'), 'abc')
    symlinkSync('files', join(dir, 'way'))
    symlinkSync('../files/a', join(dir, 'files/deep', 'no'))
    symlinkSync('a', join(dir, 'files/b'))
    symlinkSync(join(dir, 'files/deep/later'), join(dir, 'files/soon'))
    for (const [path, real] of [
      ['way/a', 'files/a'],
      ['files/b', 'files/a'],
      ['way/b', 'files/a'],
      ['files/soon', 'files/deep/later'],
    ] as const) {
      const slot = root.openSlot(path)
      expect(slot.relPath).toBe(real)
      slot.close()
    }
  })

  const links: [string, (dir: string, outside: string) => void, string][] = [
    [
      'a directory that is a link out',
      (dir, outside) => symlinkSync(outside, join(dir, 'files/out')),
      'files/out/secret',
    ],
    [
      'the same, for a directory to be made',
      (dir, outside) => symlinkSync(outside, join(dir, 'files/out')),
      'files/out/new/a',
    ],
    ['a relative link out', (dir) => symlinkSync('../../outside', join(dir, 'files/out')), 'files/out/secret'],
    [
      'a file that is a link out',
      (dir, outside) => symlinkSync(join(outside, 'secret'), join(dir, 'files/s')),
      'files/s',
    ],
    [
      'a link to a file outside that is not there',
      (dir, outside) => symlinkSync(join(outside, 'no'), join(dir, 'files/s')),
      'files/s',
    ],
    [
      'a link to a directory outside that is not there',
      (dir) => symlinkSync('/nowhere/at/all', join(dir, 'files/s')),
      'files/s/a',
    ],
    [
      'links in a row that end outside',
      (dir, outside) => {
        symlinkSync('second', join(dir, 'first'))
        symlinkSync(join(outside, 'no'), join(dir, 'second'))
      },
      'first',
    ],
    ['a link to the parent of the session', (dir) => symlinkSync('..', join(dir, 'up')), 'up/outside/secret'],
    ['a link to itself', (dir) => symlinkSync('me', join(dir, 'me')), 'me'],
    [
      'links to each other',
      (dir) => {
        symlinkSync('two', join(dir, 'one'))
        symlinkSync('one', join(dir, 'two'))
      },
      'one',
    ],
    [
      'a link to a sibling whose name begins the same',
      (dir) => {
        mkdirSync(`${dir}-twin`)
        symlinkSync(`${dir}-twin`, join(dir, 'twin'))
      },
      'twin/a',
    ],
    ['a link to the session itself as a file', (dir) => symlinkSync(dir, join(dir, 'self')), 'self'],
  ]

  it.each(links)('refuses %s, and touches nothing', (_name, make, path) => {
    const { root, dir, outside } = tree()
    make(dir, outside)
    const before = [...listing(dir), ...listing(outside)]
    expect(() => root.openSlot(path, { create: true }).close()).toThrow(
      expect.objectContaining({ name: 'PathEscapeError', path }),
    )
    expect([...listing(dir), ...listing(outside)]).toEqual(before)
  })

  it('takes a last link as such when it is not to be followed', () => {
    const { root, dir, outside } = tree()
    symlinkSync(join(outside, 'secret'), join(dir, 'files/s'))
    const slot = root.openSlot('files/s', { followLast: false })
    expect(slot.relPath).toBe('files/s')
    expect(slot.stats?.isSymbolicLink()).toBe(true)
    slot.close()
  })

  it('stays in the directory that was checked when that is swapped for a link afterwards', () => {
    const { root, dir, outside } = tree()
    const slot = root.openSlot('files/deep/a')
    renameSync(join(dir, 'files/deep'), join(dir, 'files/moved'))
    symlinkSync(outside, join(dir, 'files/deep'))
    writeFileSync(slot.path, 'mine')
    slot.close()
    expect(readFileSync(join(dir, 'files/moved/a'), 'utf8')).toBe('mine')
    expect(() => statSync(join(outside, 'a'))).toThrow('ENOENT')
  })

  it('reports a file in the place of a directory', () => {
    const { root, dir } = tree()
    writeFileSync(join(dir, 'files/a'), 'abc')
    expect(() => root.openSlot('files/a/b', { create: true })).toThrow(expect.objectContaining({ code: 'LOCAL_IO' }))
  })
})

describe('TreeRoot', () => {
  it('works below a link, and tells its own paths by either name', () => {
    const { dir, outside } = tree()
    symlinkSync(dir, join(outside, 'link'))
    const root = new TreeRoot(join(outside, 'link'))
    expect(root.dir).toBe(dir)
    expect(root.relativize(join(outside, 'link/files/a'))).toBe('files/a')
    expect(root.relativize(join(dir, 'files/a'))).toBe('files/a')
    for (const path of [outside, dir, `${dir}-twin/a`, join(dir, '../outside'), 'files/a', '/', '', 'a\0']) {
      expect(root.relativize(path)).toBeUndefined()
    }
    expect(root.relativize(join(dir, '..a'))).toBe('..a')
  })

  it('must exist', () => {
    expect(() => new TreeRoot('/nowhere/at/all')).toThrow(expect.objectContaining({ code: 'NOT_FOUND' }))
  })
})
