import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine } from '@nexus/engine'
import { describe, expect, it } from 'vitest'
import { call } from '../../test/call.ts'
import { Lab } from '../../test/lab.ts'
import { fileTools } from './files.ts'

async function withFiles(files: Readonly<Record<string, string>> = {}, block: object = {}): Promise<Engine> {
  const engine = await new Lab().engine({ plugins: [fileTools()], blocks: { 'nexus.tool.files': block } })
  for (const [path, text] of Object.entries(files)) await engine.session.writeFile(`files/${path}`, text)
  return engine
}

describe('file tools', () => {
  it('write, read, append, list and announce what they wrote', async () => {
    const engine = await withFiles()
    const written: string[] = []
    for (const type of ['session.file.created', 'session.file.updated'] as const) {
      engine.bus.subscribe(type, ({ payload }) => void written.push(payload.path))
    }
    expect(await call(engine, 'write_file', { path: 'a/b.md', content: 'one\n' })).toEqual({
      output: 'wrote 4 bytes to a/b.md',
    })
    await call(engine, 'append_file', { path: 'a/b.md', content: 'two\nthree' })
    await call(engine, 'append_file', { path: 'new.md', content: 'é' })
    expect(await call(engine, 'read_file', { path: 'a/b.md' })).toEqual({ output: 'one\ntwo\nthree' })
    expect(await call(engine, 'read_file', { path: 'a/b.md', from_line: 2, line_count: 1 })).toEqual({ output: 'two' })
    expect(await call(engine, 'list_files', {})).toEqual({ output: 'a/b.md (13)\nnew.md (2)' })
    expect(await call(engine, 'list_files', { directory: 'a/' })).toEqual({ output: 'a/b.md (13)' })
    expect(await call(engine, 'list_files', { directory: 'none' })).toEqual({ output: 'no files' })
    expect(written).toEqual(['files/a/b.md', 'files/a/b.md', 'files/new.md'])
  })

  it('edit what is there exactly once, or everywhere when told so', async () => {
    const engine = await withFiles({ 'a.txt': 'x $1 y x' })
    const edit = (old_text: string, more: object = {}): Promise<object> =>
      call(engine, 'edit_file', { path: 'a.txt', old_text, new_text: '$&', ...more })
    expect(await edit('z')).toEqual({ error: "a.txt doesn't contain the text to replace" })
    expect(await edit('x')).toMatchObject({ error: expect.stringContaining('2 times') as unknown })
    expect(await edit('$1')).toEqual({ output: 'replaced 1 in a.txt' })
    expect(await edit('x', { replace_all: true })).toEqual({ output: 'replaced 2 in a.txt' })
    expect(await call(engine, 'read_file', { path: 'a.txt' })).toEqual({ output: '$& $& y $&' })
  })

  it('search lines, below a directory and without regard to case where asked', async () => {
    const engine = await withFiles({ 'a/1.txt': 'Alpha\nbeta', 'b/2.txt': 'alpha', 'b/3.bin': 'alpha\0' })
    expect(await call(engine, 'search_files', { text: 'alpha' })).toEqual({ output: 'b/2.txt:1: alpha' })
    expect(await call(engine, 'search_files', { text: 'ALPHA', ignore_case: true })).toEqual({
      output: 'a/1.txt:1: Alpha\nb/2.txt:1: alpha',
    })
    expect(await call(engine, 'search_files', { text: 'alpha', directory: 'a' })).toEqual({ output: 'no lines' })
  })

  it('give no more than the limit, and divide no character', async () => {
    const engine = await withFiles({ 'long.txt': `${'x'.repeat(255)}é${'y'.repeat(10)}` }, { max_output_bytes: 256 })
    expect(await call(engine, 'read_file', { path: 'long.txt' })).toEqual({
      output: `${'x'.repeat(255)}\n[cut: 11 more bytes]`,
    })
  })

  it.each(['../session.lock', '../context/conversation.jsonl', '/etc/passwd', 'a/../../x', 'link/secret', 'a\\b', ''])(
    'refuse the path %j, to read and to write',
    async (path) => {
      const engine = await withFiles()
      const outside = join(engine.session.dir, '..', 'outside')
      mkdirSync(outside, { recursive: true })
      writeFileSync(join(outside, 'secret'), 'secret')
      symlinkSync(outside, join(engine.session.filesDir, 'link'))
      for (const [tool, args] of [
        ['read_file', { path }],
        ['write_file', { path, content: 'x' }],
        ['append_file', { path, content: 'x' }],
      ] as const) {
        expect(await call(engine, tool, args)).toEqual({ error: expect.any(String) as unknown })
      }
      expect(await call(engine, 'list_files', {})).toEqual({ output: 'no files' })
      expect(await call(engine, 'search_files', { text: 'secret' })).toEqual({ output: 'no lines' })
    },
  )
})
