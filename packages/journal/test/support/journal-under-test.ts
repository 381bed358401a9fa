import assert from 'node:assert/strict'
import { JournalReader, JournalWriter, listArchives, restore, rewind, verify, type JournalFs } from '../../src/index.ts'
import { event, range } from './events.ts'
import { faultyFs, systemError } from './faulty-fs.ts'
import { hurriedClock } from './hurried-clock.ts'
import { SimulatedDisk } from './simulated-disk.ts'

const DIR = '/journal'

/** Something that is done to a journal, or happens to it. */
export type Step =
  | { do: 'append'; count: number; writeThrough: boolean; size: number }
  | { do: 'turn' | 'barrier' | 'committed' | 'close' | 'kill' | 'snapshot' | 'restore' }
  | { do: 'power loss'; arrived: number; torn: number }
  | { do: 'rewind'; to: number }

/**
 * The journal as a list of ids: `ids[i]` has seq i + 1. Of these the first `kernel` survive the death of the process, and
 * the first `durable` a power loss.
 */
class Model {
  ids: string[] = []
  kernel = 0
  durable = 0

  /** Takes over what is really there after a crash, once it was found to be at least what was promised. */
  settle(ids: readonly string[]): void {
    this.ids = [...ids]
    this.kernel = ids.length
  }
}

/** The real journal beside the model. Every method fails the running test when the two differ. */
export class JournalUnderTest {
  readonly model: Model = new Model()
  disk: SimulatedDisk = new SimulatedDisk()
  #writer: JournalWriter | undefined
  #process = { dead: false }
  #archives = new Map<string, string[]>()

  constructor() {
    this.disk.fs.mkdirSync(DIR)
    this.disk.fs.mkdirSync('/staging')
    this.disk.fs.fsyncSync(this.disk.fs.openSync('/', 'r'))
  }

  /** The disk, as a process sees it until it dies. */
  #fs(): JournalFs {
    const process = (this.#process = { dead: false })
    return faultyFs(() => (process.dead ? systemError('EIO') : undefined), this.disk.fs)
  }

  async writer(): Promise<JournalWriter> {
    this.#writer ??= await JournalWriter.open(DIR, {
      fsync: 'every-event',
      rotateBytes: 700,
      sessionId: 's1',
      fs: this.#fs(),
      clock: hurriedClock,
    })
    return this.#writer
  }

  async apply(each: Step): Promise<void> {
    switch (each.do) {
      case 'append':
        return this.#append(each.count, each.size, each.writeThrough)
      case 'turn':
        return this.#durable(async (writer) => writer.turnEnded())
      case 'barrier':
        return this.#durable(async (writer) => writer.barrier())
      case 'committed':
        return this.#durable(async (writer) => writer.committed())
      case 'snapshot':
        return this.#snapshot()
      case 'close':
        return this.#close()
      case 'kill':
        this.#die()
        return this.#found(this.model.kernel)
      case 'power loss':
        this.#die()
        this.disk = this.disk.afterPowerLoss({
          arrived: (most) => Math.round(each.arrived * most),
          torn: (most) => Math.round(each.torn * most),
        })
        if (!this.disk.fs.readdirSync('/').includes('staging')) this.disk.fs.mkdirSync('/staging')
        return this.#found(this.model.durable)
      case 'rewind':
        return this.#rewind(Math.floor(each.to * this.model.ids.length))
      case 'restore':
        return this.#restore()
    }
  }

  async #append(count: number, size: number, writeThrough: boolean): Promise<void> {
    const writer = await this.writer()
    for (let i = 0; i < count; i++) {
      const record = event('a', 'x'.repeat(size))
      const seq = writer.append(record, { writeThrough })
      assert.equal(seq, this.model.ids.push(record.event_id))
      if (writeThrough) this.model.kernel = seq
    }
  }

  async #durable(wait: (writer: JournalWriter) => Promise<void>): Promise<void> {
    const writer = await this.writer()
    const { lastSeq } = writer
    await wait(writer)
    this.model.durable = this.model.kernel = lastSeq
  }

  async #snapshot(): Promise<void> {
    const writer = await this.writer()
    const { lastSeq } = writer
    const snapshot = await writer.snapshot('/staging')
    assert.equal(snapshot.lastSeq, lastSeq)
    this.model.durable = this.model.kernel = lastSeq
  }

  async #close(): Promise<void> {
    const { lastSeq } = await this.writer()
    await this.#writer?.close()
    this.#writer = undefined
    this.model.durable = this.model.kernel = lastSeq
    await this.expectEqual()
  }

  #die(): void {
    this.#process.dead = true
    this.#writer = undefined
  }

  /** What a crash left: at least what was promised, nothing that was never appended. */
  async #found(promised: number): Promise<void> {
    const { lastSeq } = await this.writer()
    assert.ok(lastSeq >= promised, `${promised} events were promised, ${lastSeq} are left`)
    this.model.settle(this.model.ids.slice(0, lastSeq))
    await this.#close()
  }

  async #rewind(to: number): Promise<void> {
    await this.#close()
    const { archive } = await rewind(DIR, to, { lock: 'private', fs: this.disk.fs })
    this.#archives.set(archive, [...this.model.ids])
    this.model.settle(this.model.ids.slice(0, to))
    this.model.durable = to
    await this.expectEqual()
  }

  async #restore(): Promise<void> {
    await this.#close()
    const [chosen] = await listArchives(DIR, { fs: this.disk.fs })
    if (!chosen) return
    const { archive } = await restore(DIR, chosen.name, { lock: 'private', fs: this.disk.fs })
    this.#archives.set(archive, [...this.model.ids])
    this.model.settle(this.#archives.get(chosen.name) ?? [])
    this.model.durable = this.model.kernel
    await this.expectEqual()
  }

  async expectEqual(): Promise<void> {
    const { fs } = this.disk
    const reader = await JournalReader.open(DIR, { fs })
    const ids: string[] = []
    const seqs: number[] = []
    for await (const envelope of reader) {
      ids.push(envelope.event_id)
      seqs.push(envelope.seq)
    }
    assert.deepEqual(seqs, range(1, this.model.ids.length))
    assert.deepEqual(ids, this.model.ids)
    assert.equal((await verify(DIR, { fs })).ok, true)
    assert.equal(await reader.lastSeq(), ids.length)
  }

  async end(): Promise<void> {
    await this.#close()
  }
}
