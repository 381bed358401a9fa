import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type EmulatorUnderTest, openEmulatorUnderTest } from './emulator-client.ts'

const QUANTUM = 256 * 1024
let under: EmulatorUnderTest

beforeEach(async () => {
  under = await openEmulatorUnderTest()
})

afterEach(() => under.emulator.close())

async function sessionOf(answer: Response): Promise<string> {
  expect(answer.status).toBe(200)
  return answer.headers.get('location') ?? ''
}

function put(session: string, range: string, body = ''): Promise<Response> {
  return fetch(session, { method: 'PUT', headers: { 'content-range': range }, body })
}

describe('resumable uploads', () => {
  it('take chunks, tell how much they have, and end with the object', async () => {
    const session = await sessionOf(await under.start({ name: 'k' }))
    const content = 'a'.repeat(QUANTUM) + 'b'.repeat(10)
    expect((await put(session, `bytes */${content.length}`)).headers.get('range')).toBe(null)
    const first = await put(session, `bytes 0-${QUANTUM - 1}/${content.length}`, content.slice(0, QUANTUM))
    expect([first.status, first.headers.get('range')]).toEqual([308, `bytes=0-${QUANTUM - 1}`])
    expect((await put(session, `bytes */${content.length}`)).headers.get('range')).toBe(`bytes=0-${QUANTUM - 1}`)
    expect((await under.read('k')).status).toBe(404)
    const last = await put(session, `bytes ${QUANTUM}-${content.length - 1}/${content.length}`, content.slice(QUANTUM))
    expect([last.status, ((await last.json()) as { size: string }).size]).toEqual([200, String(content.length)])
    expect(await (await under.read('k')).text()).toBe(content)
    expect((await put(session, `bytes */${content.length}`)).status).toBe(200)
    expect(under.emulator.openUploads()).toBe(0)
  })

  it('keep whole quanta only of a chunk that was cut', async () => {
    const session = await sessionOf(await under.start({ name: 'k' }))
    under.emulator.faults.add({ fault: { kind: 'upload-reset', afterBytes: 3 * QUANTUM + 1000 }, times: 1 })
    const total = 4 * QUANTUM
    await expect(put(session, `bytes 0-${total - 1}/${total}`, 'x'.repeat(total))).rejects.toThrow('fetch failed')
    const range = (await put(session, `bytes */${total}`)).headers.get('range')
    const settled = range === null ? 0 : Number(range.split('-')[1]) + 1
    expect(settled).toBeGreaterThan(0)
    expect(settled % QUANTUM).toBe(0)
    expect(settled).toBeLessThan(total)
    const rest = 'x'.repeat(total - settled)
    expect((await put(session, `bytes ${settled}-${total - 1}/${total}`, rest)).status).toBe(200)
    expect((await (await under.read('k')).text()).length).toBe(total)
  })

  it('refuse a gap', async () => {
    const session = await sessionOf(await under.start({ name: 'k' }))
    expect((await put(session, `bytes ${QUANTUM}-${QUANTUM + 9}/1000000`, 'x'.repeat(10))).status).toBe(400)
  })

  it('check what was declared at the start', async () => {
    const session = await sessionOf(await under.start({ name: 'k', crc32c: 'AAAAAA==' }))
    expect((await put(session, 'bytes 0-4/5', 'hello')).status).toBe(400)
    expect((await under.read('k')).status).toBe(404)
  })

  it('hold to their precondition at the end, too', async () => {
    const session = await sessionOf(await under.start({ name: 'k' }, { ifGenerationMatch: '0' }))
    await under.insert('k', 'faster')
    expect((await put(session, 'bytes 0-4/5', 'hello')).status).toBe(412)
    expect((await under.start({ name: 'k' }, { ifGenerationMatch: '0' })).status).toBe(412)
  })

  it('are gone when they were cancelled', async () => {
    const session = await sessionOf(await under.start({ name: 'k' }))
    expect(under.emulator.openUploads()).toBe(1)
    expect((await fetch(session, { method: 'DELETE' })).status).toBe(499)
    expect(under.emulator.openUploads()).toBe(0)
    expect((await put(session, 'bytes 0-4/5', 'hello')).status).toBe(410)
  })
})

describe('planned faults', () => {
  it('refuse, reset, cut and lose as planned', async () => {
    const { insert, read, emulator } = under
    emulator.faults.add({ fault: { kind: 'status', status: 503, code: 'backendError' }, times: 1, perKey: true })
    expect([(await insert('k', 'x')).status, (await insert('k', 'x')).status]).toEqual([503, 200])
    emulator.faults.clear()
    const isInsert = ({ operation }: { operation: string }): boolean => operation === 'objects.insert'
    emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, on: isInsert })
    await expect(insert('lost', 'x')).rejects.toThrow('fetch failed')
    expect(await (await read('lost')).text()).toBe('x')
    emulator.faults.add({ fault: { kind: 'download-short', bytes: 2 }, times: 1 })
    await insert('long', 'x'.repeat(100))
    emulator.faults.clear()
    emulator.faults.add({ fault: { kind: 'download-short', bytes: 2 }, times: 1 })
    const short = await read('long')
    expect([short.status, await short.text()]).toEqual([200, 'xx'])
    expect(short.headers.get('x-goog-stored-content-length')).toBe('100')
  })
})
