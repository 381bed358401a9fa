import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { tempDir } from '@nexus/host/testing'
import { expect, it, onTestFinished } from 'vitest'
import { SnapshotMemory } from '../src/capture/memory.ts'
import { type Host, Lab, TREE_KEY, write } from './durability-fixture.ts'

const SECRET = 'not of this session'

function newLab(): Lab {
  const lab = new Lab()
  onTestFinished(() => lab.remove())
  return lab
}

async function started(command: string, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await new Promise((resolve, reject) => {
    child.stdout?.once('data', resolve)
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`${command} ended with ${code}`)))
  })
  return child
}

const scriptArgs = (name: string): string[] => [...process.execArgv, fileURLToPath(new URL(name, import.meta.url))]

/** Every entry of the commit describes the bytes in the store. */
function expectExact(lab: Lab): void {
  for (const path of lab.committed?.objects ?? []) {
    const bytes = lab.backend.objects.get(`${TREE_KEY}/${path}`)?.bytes
    const sha256 = createHash('sha256')
      .update(bytes ?? '')
      .digest('hex')
    expect([path, lab.committed?.entries[path]]).toEqual([
      path,
      expect.objectContaining({ size: bytes?.length, sha256 }),
    ])
  }
}

it('a program that writes through a shared mapping while turns end never makes a digest untrue', async () => {
  const lab = newLab()
  const a = lab.host()
  const [small, large] = [join(a.dir, 'files/small'), join(a.dir, 'files/large')]
  mkdirSync(join(a.dir, 'files'))
  writeFileSync(small, Buffer.alloc(300_000))
  writeFileSync(large, Buffer.alloc(17 * 1024 * 1024))
  const program = `
import mmap, sys
files = [open(p, 'r+b') for p in sys.argv[1:]]
maps = [mmap.mmap(f.fileno(), 0) for f in files]
for m in maps: m[:] = b'a' * len(m)
print('ready', flush=True)
n = 0
while True:
    n += 1
    for m in maps:
        for at in range(0, len(m), 40000): m[at:at+4] = (n % 2**32).to_bytes(4, 'big')
`
  await started('python3', ['-c', program, small, large])
  const memory = new SnapshotMemory()
  for (let turn = 0; turn < 25; turn++) {
    await lab.snapshot(a, { memory })
    expectExact(lab)
  }
})

it('a tool that swaps directories of the engine for links in a loop gets no byte from outside into the bucket', async () => {
  const lab = newLab()
  const a = lab.host()
  const outside = tempDir()
  const names = ['plugins', 'plugins/main', 'journal', 'metadata', 'blobs', 'files/x', 'files']
  const files = [
    'metadata/session.json',
    'metadata/notes',
    'journal/header.json',
    'journal/events.jsonl',
    'files/x/one',
    'files/two',
    'context/conversation.jsonl',
  ]
  for (const path of files) {
    write(a, path, `mine ${path}\n`)
    for (const name of [path, `${path}-too`]) {
      mkdirSync(join(outside, name, '..'), { recursive: true })
      writeFileSync(join(outside, name), SECRET)
    }
  }
  lab.storage(a).open('session', 'main').put('row', 'mine')
  mkdirSync(join(outside, 'plugins/main'), { recursive: true })
  const theirs = new Database(join(outside, 'plugins/main/store.db'))
  theirs.exec(`create table t (x); insert into t values ('${SECRET}')`)
  theirs.close()
  mkdirSync(join(a.dir, 'blobs'))
  mkdirSync(join(outside, 'blobs'))
  await lab.snapshot(a)
  await started(process.execPath, [...scriptArgs('./place-swapper-child.ts'), a.dir, outside, ...names])
  const memory = new SnapshotMemory()
  let committed = 0
  for (let turn = 0; turn < 60; turn++) {
    const outcome = await lab.snapshot(a, { memory }).catch((error: unknown) => error as Error)
    if (!(outcome instanceof Error)) {
      committed++
      expectExact(lab)
    }
    for (const [key, { bytes }] of lab.backend.objects)
      expect([turn, key, bytes.includes(SECRET)]).toEqual([turn, key, false])
    expect(Object.keys(lab.committed?.links ?? {}).filter((path) => names.slice(0, 5).includes(path))).toEqual([])
  }
  expect(committed).toBeGreaterThan(0)
})

it('a git repository made by a subprocess, and a database of its own tool, survive a kill and a resume elsewhere', async () => {
  const lab = newLab()
  const a = lab.host()
  const repository = join(a.dir, 'files/repo')
  const git = (cwd: string, ...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.invalid', ...args], {
      cwd,
      encoding: 'utf8',
      stdio: 'pipe',
    })
  mkdirSync(repository, { recursive: true })
  git(repository, 'init', '-q', '-b', 'main')
  for (let n = 0; n < 40; n++) writeFileSync(join(repository, `file-${n}`), `content ${n}\n`.repeat(n + 1))
  mkdirSync(join(repository, 'bin'))
  writeFileSync(join(repository, 'bin/run'), '#!/bin/sh\n', { mode: 0o755 })
  writeFileSync(join(repository, '.git/hooks/pre-commit'), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
  git(repository, 'add', '.')
  git(repository, 'commit', '-q', '-m', 'one')
  git(repository, 'gc', '-q')
  git(repository, 'branch', 'side')
  git(repository, 'worktree', 'add', '-q', '../tree', 'side')
  writeFileSync(join(repository, 'file-1'), 'two\n')
  git(repository, 'commit', '-q', '-a', '-m', 'two')
  const tool = await started(process.execPath, [
    ...scriptArgs('./snapshot-database-child.ts'),
    join(a.dir, 'files/tool.db'),
    'wal',
  ])
  const memory = new SnapshotMemory()
  for (let turn = 0; turn < 5; turn++) expect((await lab.snapshot(a, { memory })).unstored).toEqual([])
  tool.kill('SIGKILL')

  const b: Host = lab.host({ empty: true })
  await lab.hydrate(b, { onMixed: 'fail' })
  const restored = join(b.dir, 'files/repo')
  expect(git(restored, 'status', '--porcelain')).toBe('')
  expect(git(restored, 'fsck', '--full', '--strict')).toBe('')
  expect(git(restored, 'log', '--format=%s')).toBe('two\none\n')
  expect(readFileSync(join(restored, 'file-1'), 'utf8')).toBe('two\n')
  expect(existsSync(join(b.dir, 'files/tree/.git'))).toBe(true)
  execFileSync(join(restored, 'bin/run'))
  expect(existsSync(join(b.dir, 'files/tool.db-wal'))).toBe(false)
  const db = new Database(join(b.dir, 'files/tool.db'))
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
  const [count, wrong] = [
    db.prepare('select count(*) from pairs').pluck().get() as number,
    db.prepare('select count(*) from pairs where twice != 2 * n').pluck().get(),
  ]
  db.close()
  expect(count % 2).toBe(0)
  expect(count).toBeGreaterThan(0)
  expect(wrong).toBe(0)
})
