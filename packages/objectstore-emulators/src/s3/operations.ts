import type { Answer, Exchange } from './exchange.ts'
import { listObjects } from './listing.ts'
import {
  abortMultipartUpload,
  completeMultipartUpload,
  createMultipartUpload,
  listMultipartUploads,
  listParts,
  uploadPart,
} from './multipart.ts'
import { deleteObject, deleteObjects, getObject, headObject, putObject } from './objects.ts'
import { xmlDocument } from './xml.ts'

/** What the emulator can do to an existing bucket. */
export const operations: Readonly<Record<string, (exchange: Exchange) => Answer | Promise<Answer>>> = {
  PutObject: putObject,
  GetObject: getObject,
  HeadObject: headObject,
  DeleteObject: deleteObject,
  DeleteObjects: deleteObjects,
  ListObjects: listObjects,
  ListObjectsV2: listObjects,
  CreateMultipartUpload: createMultipartUpload,
  UploadPart: uploadPart,
  CompleteMultipartUpload: completeMultipartUpload,
  AbortMultipartUpload: abortMultipartUpload,
  ListParts: listParts,
  ListMultipartUploads: listMultipartUploads,
  HeadBucket: () => ({ status: 200 }),
  GetBucketLocation: () => ({ status: 200, body: xmlDocument('LocationConstraint', '') }),
}
