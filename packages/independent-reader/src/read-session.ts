import { createHash } from 'node:crypto'
import { decompress } from 'zstd-napi'
import { crc32c } from './crc32c.ts'
import { entriesOf, type ListedObject, objectsOf, pagesOf, type Reference } from './page.ts'

/** Where objects are read from. */
export interface Bucket {
  get(key: string): Promise<Buffer | undefined>
  /** Keys below a prefix. */
  list(prefix: string): Promise<string[]>
}

/** A session as its newest commit has it. */
export interface ReadSession {
  generation: number
  header: Header
  files: Map<string, { content: Buffer; mode: number; mtimeNs: bigint }>
  /** Modes of the directories that have an entry. */
  dirs: Map<string, number>
  links: Map<string, string>
}

/** What this reader needs of a header; the rest of it is there, too. */
export interface Header {
  [field: string]: unknown
  kind: string
  n: number
  packs: ListedObject[]
  pack_pages: Reference[]
  index: { depth: number; pages: Reference[] }
}

/**
 * Reads a commit of a session, the newest where none is named, and checks every digest.
 *
 * @returns undefined when there is none, or the session was removed
 */
export async function readSession(
  bucket: Bucket,
  sessionId: string,
  options: { generation?: number } = {},
): Promise<ReadSession | undefined> {
  const prefix = `sessions/${sessionId}.v/`
  const generation = options.generation ?? (await newest(bucket, prefix))
  if (generation === undefined) return undefined
  const { bytes, header } = await readCommit(bucket, sessionId, generation)
  if (header === undefined) throw new Error(`${commitName(generation)} was reclaimed`)
  if (header.kind === 'removed') return undefined
  const own = { n: header.n, name: commitName(generation), size: bytes.length, base: baseOf(bytes) }
  return await new Reader(bucket, prefix, header, own).read(generation)
}

/**
 * Reads what lies under the number of a commit, and checks it.
 *
 * @returns without a header when the commit was reclaimed: its tombstone
 */
export async function readCommit(
  bucket: Bucket,
  sessionId: string,
  generation: number,
): Promise<{ bytes: Buffer; header: Header | undefined }> {
  const name = commitName(generation)
  const bytes = await bucket.get(`sessions/${sessionId}.v/${name}`)
  if (bytes === undefined) throw new Error(`${name} is missing`)
  if (bytes.toString('latin1', 0, 4) === 'NXT1') return { bytes, header: undefined }
  const header = openCommit(bytes)
  const { format, session_id: owner, generation: own } = header
  if (format !== 1 || owner !== sessionId || own !== generation)
    throw new Error(`${name} is the commit of something else`)
  return { bytes, header }
}

function commitName(generation: number): string {
  const digits = String(generation).padStart(20, '0')
  return `commits/${digits.slice(0, 17)}/${digits.slice(17)}`
}

/** Every commit is listed, which is enough for a test. */
async function newest(bucket: Bucket, prefix: string): Promise<number | undefined> {
  const keys = await bucket.list(`${prefix}commits`)
  const generations = keys.map((key) => Number(key.slice(`${prefix}commits/`.length).replace('/', '')))
  return generations.length === 0 ? undefined : Math.max(...generations)
}

function openCommit(commit: Buffer): Header {
  const footer = commit.subarray(-32)
  if (footer.length < 32 || footer.readUInt32LE(28) !== crc32c(footer.subarray(0, 28))) throw new Error('no footer')
  const [h, p, g] = [footer.readUInt32LE(0), Number(footer.readBigUInt64LE(4)), Number(footer.readBigUInt64LE(12))]
  if (36 + h + p + g + 32 !== commit.length) throw new Error('a cut commit')
  if (crc32c(commit.subarray(0, -32)) !== footer.readUInt32LE(20)) throw new Error('a damaged commit')
  const frame = commit.subarray(36, 36 + h)
  if (commit.toString('latin1', 0, 4) !== 'NXC1' || !sha256(frame).equals(commit.subarray(4, 36))) {
    throw new Error('a damaged header')
  }
  return JSON.parse(decompress(frame).toString()) as Header
}

/** Where the pages and the payload begin. */
function baseOf(commit: Buffer): number {
  return 36 + commit.readUInt32LE(commit.length - 32)
}

class Reader {
  readonly #bucket: Bucket
  readonly #prefix: string
  readonly #header: Header
  readonly #own: ListedObject
  readonly #objects = new Map<number, ListedObject>()
  readonly #bytes = new Map<string, Buffer>()

  constructor(bucket: Bucket, prefix: string, header: Header, own: ListedObject) {
    this.#bucket = bucket
    this.#prefix = prefix
    this.#header = header
    this.#own = own
  }

  async read(generation: number): Promise<ReadSession> {
    const { packs, pack_pages: packPages, index } = this.#header
    for (const each of [this.#own, ...packs]) this.#objects.set(each.n, each)
    for (const page of packPages) for (const each of objectsOf(await this.#fetch(page))) this.#objects.set(each.n, each)
    const session: ReadSession = {
      generation,
      header: this.#header,
      files: new Map(),
      dirs: new Map(),
      links: new Map(),
    }
    for (const page of index.pages) {
      if (index.depth === 1) await this.#addPage(page, session)
      else for (const each of pagesOf(await this.#fetch(page))) await this.#addPage(each, session)
    }
    return session
  }

  async #addPage(page: Reference, { files, dirs, links }: ReadSession): Promise<void> {
    for (const item of entriesOf(await this.#fetch(page))) {
      if (item.type === 'dir') dirs.set(item.path, item.mode)
      else if (item.type === 'link') links.set(item.path, item.target)
      else {
        const parts: Buffer[] = []
        for (const chunk of item.chunks) parts.push(await this.#fetch(chunk))
        const known = item.type === 'more' ? files.get(item.path) : { ...item, content: Buffer.alloc(0) }
        if (known === undefined) throw new Error(`more of ${item.path}, which is not there`)
        const { mode, mtimeNs } = known
        files.set(item.path, { mode, mtimeNs, content: Buffer.concat([known.content, ...parts]) })
      }
    }
  }

  async #fetch({ n, offset, length, codec, sha256: digest }: Reference): Promise<Buffer> {
    const object = this.#objects.get(n)
    if (object === undefined) throw new Error(`object ${n} is not listed`)
    const whole = this.#bytes.get(object.name) ?? (await this.#bucket.get(this.#prefix + object.name))
    if (whole === undefined) throw new Error(`${object.name} is missing`)
    this.#bytes.set(object.name, whole)
    if (whole.length !== object.size) throw new Error(`${object.name} has another size than it should`)
    const stored = whole.subarray(object.base + offset, object.base + offset + length)
    const bytes = codec === 'zstd' ? decompress(stored) : stored
    if (sha256(bytes).toString('hex') !== digest) throw new Error(`a chunk of ${object.name} is damaged`)
    return bytes
  }
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}
